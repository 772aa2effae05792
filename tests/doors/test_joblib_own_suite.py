"""joblib's own tests of `Parallel`, with tenfold's backend as the default one and in the place of loky."""

from __future__ import annotations

from pathlib import Path

import suites

EXCEPTIONS = {
    "test_parallel_with_interactively_defined_bound_method_loky": (
        'looks for the name of loky\'s process class, "LokyProcess", in the log of multiprocessing'
    ),
}

OTHERWISE = {
    "test_multiple_generator_call_separated_gc": (
        "expects that loky refuses a call while the workers that it shares with an earlier one are ended. One Parallel "
        "does not end another's workers here: what is expected is that the call is made, as of threads"
    ),
}
"""Tests in which `suites.IN_OUR_WORDS` changes what is expected, and why; they pass with that."""


def test_joblibs_own_tests_pass(tmp_path: Path) -> None:
    found = suites.run(tmp_path, [str(suites.joblib_tests(tmp_path))])
    assert len([name for name, (outcome, _) in found.items() if outcome == "passed"]) > 250
    for name in OTHERWISE:
        assert [outcome for one, (outcome, _) in found.items() if one.startswith(f"{name}[")] == ["passed"] * 4
    faults = suites.compare(found, EXCEPTIONS)
    assert not faults, "\n\n".join(faults)
