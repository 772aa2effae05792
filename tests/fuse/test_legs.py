"""A model that pauses and goes on is the same as one that does not: fused, looped and alone, in Keras and PyTorch."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import leg_cases as cases
import numpy
import pytest
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from torch import nn

import scripts
import tenfold

pytestmark = pytest.mark.usefixtures("one_thread")

HERE = Path(__file__).parent
WAYS = ("fused", "looped", "alone")
ITEMS = [{"lr": lr, "seed": seed} for lr, seed in ((0.003, 1), (0.01, 2), (0.02, 3))]
STEPS = 3  # in an epoch


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def build(lr: float, kind: str = "dense", optimizer: str = "Adam", **settings: Any) -> tuple[Any, Any, Any]:
    middle = {"dense": [nn.ReLU()], "dropout": [nn.Dropout(0.4)], "norm": [nn.BatchNorm1d(8), nn.ReLU()]}[kind]
    module = nn.Sequential(nn.Linear(6, 8, bias=kind != "norm"), *middle, nn.Linear(8, 3))
    return module, nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(module.parameters(), lr=lr, **settings)


def scheduled(lr: float, later: float) -> tuple[Any, Any, Any]:
    """Another rate from the third epoch on, as it is done by hand."""
    module, loss, optimizer = build(lr)
    steps = []

    def change(*_: Any) -> None:
        if len(steps) == cases.PAUSE * STEPS:
            optimizer.param_groups[0]["lr"] = later
        steps.append(1)

    optimizer.register_step_pre_hook(change)
    return module, loss, optimizer


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("kind", ["dense", "norm"])
def test_pytorch(how: str, kind: str) -> None:
    found = cases.check_legs(cases.fit_of(build, how), [{**item, "kind": kind} for item in ITEMS], (1, 3))
    assert all(one.how.startswith(how) for one in found)


@pytest.mark.parametrize("how", WAYS)
def test_pytorch_with_momentum_of_the_optimizer(how: str) -> None:
    items = [{**item, "optimizer": "SGD", "momentum": 0.9} for item in ITEMS]
    cases.check_legs(cases.fit_of(build, how), items)


@pytest.mark.parametrize("how", ["looped", "alone"])
def test_pytorch_with_dropout(how: str) -> None:
    """It draws from PyTorch's global random numbers, which go on where they were."""
    cases.check_legs(cases.fit_of(build, how), [{**item, "kind": "dropout"} for item in ITEMS])


@pytest.mark.parametrize("how", WAYS)
def test_pytorch_with_early_stopping(how: str) -> None:
    items = [{"lr": lr, "seed": 1} for lr in (0.001, 2.0, 0.3)]
    fit = cases.fit_of(build, how, callbacks=[tenfold.EarlyStopping(patience=1)])
    found = cases.check_legs(fit, items, (1, 3))
    assert len({one.epochs for one in found}) > 1, "they must stop at different epochs, or this shows nothing"


@pytest.mark.parametrize("how", WAYS)
def test_pytorch_goes_on_with_another_rate(how: str) -> None:
    cases.check_another_rate(cases.fit_of(build, how), cases.fit_of(scheduled, "alone"), (0.003, 0.03), 4)


@pytest.mark.parametrize("how", WAYS)
def test_pytorch_with_rows_of_its_own(how: str) -> None:
    items = [{"lr": 0.01, "seed": 1, "rows": numpy.arange(30), "validation_rows": numpy.arange(30, 40)}]
    cases.check_legs(cases.fit_of(build, how, validation=None), items)


def test_what_was_begun_in_a_group_cannot_go_on_alone() -> None:
    (before,) = cases.run(cases.fit_of(build, "fused"), [cases.leg(0, ITEMS[0], cases.PAUSE)])
    with pytest.raises(tenfold.TasksFailed, match="was begun in a group, and cannot go on alone"):
        cases.run(cases.fit_of(build, "alone"), [cases.leg(0, ITEMS[0], None, before)])


# -- Keras ------------------------------------------------------------------------------------------------------------

_SCRIPT = """
    import sys
    sys.path.insert(0, {here!r})
    import keras_legs
    keras_legs.main({names!r})
"""
BACKENDS = {
    # Alone, Keras is slow to compile; on PyTorch it need not. What is done there is the same for all of them.
    "jax": [*(f"fused {name}" for name in ("mixed", "stopping", "rows", "rate")), "looped mixed"],
    "tensorflow": ["alone one"],
    "torch": [f"alone {name}" for name in ("mixed", "stopping", "rows", "rate", "unbuilt")],
}
VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong, by backend, way and case."""
    folder = tmp_path_factory.mktemp("legs")
    with contextlib.ExitStack() as stack:
        running = {}
        for backend, names in BACKENDS.items():
            text = _SCRIPT.format(here=str(HERE), names=names)
            hasty = scripts.HASTY if backend == "jax" else {}
            variables = {**VARIABLES, "KERAS_BACKEND": backend, **hasty}
            running[backend] = stack.enter_context(scripts.started(folder, text, variables, f"on_{backend}"))
        ended = {backend: script.end(280) for backend, script in running.items()}
    found: dict[str, str] = {}
    for backend, one in ended.items():
        assert one.status == 0, one.err
        found |= {f"{backend} {name}": fault for name, fault in json.loads(one.out.splitlines()[-1]).items()}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"{backend} {name}" for backend, names in BACKENDS.items() for name in names])
def test_keras(name: str, told: dict[str, str]) -> None:
    assert told[name] == ""
