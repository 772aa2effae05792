"""scikit-learn's own checks of estimators pass for ours, all of them.

PyTorch's run here. Keras's run in processes of their own: on PyTorch, which has nothing to compile and so is the
quickest of its backends for small models; and where numbers are compared to 1e-7 on TensorFlow, because Keras on
PyTorch calculates in float32 even where float64 is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

import pytest
import sklearn_builds
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test
from sklearn.utils.estimator_checks import estimator_checks_generator

import scripts
from tenfold.sklearn import TorchClassifier, TorchRegressor

pytestmark = pytest.mark.usefixtures("one_thread")

EXACT = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
)
"""Checks that compare to 1e-7."""
KINDS = ("classifier", "regressor")
_RUN = """
    import sys
    sys.path.insert(0, {here!r})
    import sklearn_checks
    sklearn_checks.main({kinds!r}, {only!r})
"""


CHECKS = [
    *estimator_checks_generator(TorchClassifier(sklearn_builds.torch_classes, epochs=20, batch_size=64), mark="skip"),
    *estimator_checks_generator(TorchRegressor(sklearn_builds.torch_numbers, epochs=20, batch_size=64), mark="skip"),
]


def _name(one: Any) -> str:
    """Without the addresses that parametrize_with_checks has in its names: sessions side by side must find the same."""
    return one.func.__name__ if isinstance(one, functools.partial) else type(one).__name__


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=_name)
def test_a_pytorch_estimator_is_what_scikit_learn_expects(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, str | None]]]:
    """What the checks of Keras estimators said, by backend and kind."""
    found: dict[str, Any] = {"torch": {}, "tensorflow": {}}
    with contextlib.ExitStack() as stack:
        running = []
        for backend, kinds, only in (("torch", KINDS[:1], ()), ("torch", KINDS[1:], ()), ("tensorflow", KINDS, EXACT)):
            text = _RUN.format(here=str(Path(__file__).parent), kinds=kinds, only=only)
            variables = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
            script = stack.enter_context(scripts.started(tmp_path_factory.mktemp("checks"), text, variables))
            running.append((backend, script))
        for backend, script in running:
            ended = script.end(280)
            assert ended.status == 0, ended.err
            found[backend] |= json.loads(ended.out.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_keras_estimator_is_what_scikit_learn_expects(kind: str, answers: dict[str, Any]) -> None:
    faults = {
        name: said
        for name, said in answers["torch"][kind].items()
        if said is not None and not said.startswith("skipped: ") and name.split()[0] not in EXACT
    }
    assert len(answers["torch"][kind]) > 50
    assert not faults, "\n".join(f"{name}: {said}" for name, said in faults.items())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_keras_estimator_is_exact_where_keras_is(kind: str, answers: dict[str, Any]) -> None:
    found = answers["tensorflow"][kind]
    assert {name.split()[0] for name in found} == set(EXACT)
    assert not any(found.values()), found
