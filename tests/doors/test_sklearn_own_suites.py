"""scikit-learn's own tests of searches and of cross-validation, with tenfold's backend as the default one.

Most of them ask for no number of jobs and so run in one process. Therefore two things are tested here: those that ask
for one, as they are; and all tests of both files, in one run, with two jobs wherever none is asked for.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
import suites

SEARCH = "sklearn.model_selection.tests.test_search"
VALIDATION = "sklearn.model_selection.tests.test_validation"

IN_OTHER_PROCESSES = {
    "test_grid_search_cv_splits_consistency": "its splitter holds a generator, which cannot be pickled",
    "test_multi_metric_search_forwards_metadata": "looks for fitted estimators in a list in the caller's memory",
    "test_search_callbacks_receive_search_instance": "a callback must be given the caller's object, and not its equal",
    "test_search_callbacks_with_partial_fit_failures": "its callback sends a class of a function by plain pickle",
    "test_searchcv_raise_warning_with_non_finite_score": "its scorer counts its calls in the caller's memory",
}
"""Tests of searches that fail with two jobs on any backend that has processes: loky fails these and three more."""

IN_OTHER_PROCESSES_OF_VALIDATION = {
    "test_cross_val_predict": "waits in the caller for a warning of a call",
    "test_cross_val_score_failing_scorer": "waits in the caller for a warning of a call",
    "test_cross_val_score_score_func": "its scorer counts its calls in the caller's memory",
    "test_cross_validate_failing_scorer": "waits in the caller for a warning of a call",
    "test_cross_validate_invalid_scoring_param": "waits in the caller for a warning of a call",
    "test_learning_curve_exploit_incremental_learning_routing": "looks for estimators in a list in the caller's memory",
    "test_validation_functions_routing": "looks for estimators in a list in the caller's memory",
}
WHICH_FAILS_FIRST = {
    "test_cross_val_predict_decision_function_shape": "two calls fail, and it names the one that must be first",
    "test_learning_curve_params": "several calls fail, and it names the one that must be first",
}


Found = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What became of each test of both files, in one run."""
    return suites.run(tmp_path_factory.mktemp("suites"), ["--pyargs", SEARCH, VALIDATION], jobs=2)


def passed(found: Found, names: set[str]) -> list[str]:
    return [name for name, (outcome, _) in found.items() if outcome == "passed" and name.partition("[")[0] in names]


def those_of(module: str, said: str = "") -> set[str]:
    """The tests of a module whose text has `said`."""
    spec = importlib.util.find_spec(module)
    text = Path(spec.origin).read_text()
    lines = text.splitlines()
    tests = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    tests = [test for test in tests if said in "\n".join(lines[test.lineno - 1 : test.end_lineno])]
    return {test.name for test in tests if test.name.startswith("test_")}


def test_no_other_test_fails(found: Found) -> None:
    exceptions = {**IN_OTHER_PROCESSES, **IN_OTHER_PROCESSES_OF_VALIDATION}
    faults = suites.compare(found, exceptions, WHICH_FAILS_FIRST)
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize(("module", "at_least"), [(SEARCH, 120), (VALIDATION, 95)], ids=["searches", "validation"])
def test_most_of_them_pass(found: Found, module: str, at_least: int) -> None:
    assert len(passed(found, those_of(module))) >= at_least


def test_those_that_ask_for_jobs_and_those_that_cannot_have_two_pass_as_they_are(tmp_path: Path) -> None:
    excused = {*IN_OTHER_PROCESSES, *IN_OTHER_PROCESSES_OF_VALIDATION, *WHICH_FAILS_FIRST}
    names = those_of(SEARCH, "n_jobs") | those_of(VALIDATION, "n_jobs")
    assert len(names) >= 5
    chosen = " or ".join(sorted(names | excused))
    as_they_are = suites.run(tmp_path, ["--pyargs", SEARCH, VALIDATION, "-k", chosen])
    assert len(passed(as_they_are, names)) >= 5
    for name in excused:
        assert passed(as_they_are, {name}), f"{name} passes nowhere"
    faults = suites.compare(as_they_are, {})
    assert not faults, "\n\n".join(faults)
