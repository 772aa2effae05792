"""The same study on every engine: the same trials, in the same states, with the same values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test

import tenfold

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 9
SPACE = {"x": tenfold.uniform(0, 1), "kind": ["a", "b"]}


def training(log: Path) -> Callable[[Any], float]:
    def train(params: dict[str, Any]) -> float:
        here = tenfold.here()
        kept = here.folder / "state"
        steps, loss = json.loads(kept.read_text()) if kept.exists() else (0, 1.0 + here.rng.random() / 100)
        while steps < STEPS:
            steps, loss = steps + 1, loss * (1 - params["x"] / (10 if params["kind"] == "a" else 20))
            with open(log, "a") as file:
                file.write(f"{params['x']!r} {steps}\n")
            kept.write_text(json.dumps([steps, loss]))
            here.report(steps, loss=loss)
        return float(loss)

    return train


def tune(task: Any, space: Any, engine: str, **more: Any) -> tenfold.Study:
    return tenfold.tune(task, space, engine=engine, workers=2, progress=False, **more)


def told(study: tenfold.Study) -> list[Any]:
    return [(t.number, t.params, t.state, t.values, t.steps, t.curve, t.lineage) for t in study.trials]


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("expected")
    calls: dict[str, dict[str, Any]] = {
        "asha": {"trials": 20, "pruner": "asha", "at_once": 5},
        "pbt": {"trials": 6, "sampler": tenfold.Pbt(every=3)},
    }
    found = {name: tune(training(folder / name), SPACE, "serial", steps=STEPS, **one) for name, one in calls.items()}
    return {"calls": calls, **{name: told(study) for name, study in found.items()}}


@pytest.mark.parametrize("name", ["asha", "pbt"])
def test_functions_with_checkpoints(name: str, engine: str, expected: dict[str, Any], tmp_path: Path) -> None:
    study = tune(training(tmp_path / "log"), SPACE, engine, steps=STEPS, **expected["calls"][name])
    assert told(study) == expected[name]
    assert {trial.state for trial in study.trials} == ({"complete"} if name == "pbt" else {"complete", "pruned"})
    if name == "asha":
        assert set(Counter((tmp_path / "log").read_text().splitlines()).values()) == {1}, "no step is done twice"


# -- models ------------------------------------------------------------------------------------------------------------

X = numpy.random.default_rng(0).normal(size=(60, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def build(lr: float, lazy: bool) -> Any:
    first = torch.nn.LazyLinear(4) if lazy else torch.nn.Linear(6, 4)
    module = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Linear(4, 2))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


def models(engine: str) -> tenfold.Study:
    fit = tenfold.Fit(build, (X, Y), epochs=STEPS, batch_size=16)
    space = {"lr": tenfold.loguniform(1e-4, 0.3), "lazy": [False, True]}
    return tune(fit, space, engine, trials=7, pruner="asha", cv=2, at_once=4)


@pytest.fixture(scope="session")
def trained() -> tenfold.Study:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    found = models("serial")
    torch.set_num_threads(before)
    return found


def test_models_with_folds(engine: str, trained: tenfold.Study) -> None:
    """Those that cannot be fused have other workers, on the same seats: a cluster holds these once for both."""
    study = models(engine)
    assert {trial.params["lazy"] for trial in study.trials} == {False, True}
    assert {trial.state for trial in study.trials} == {"complete", "pruned"}
    for one, other in zip(study.trials, trained.trials, strict=True):
        assert (one.params, one.state, one.steps) == (other.params, other.state, other.steps)
        assert list(one.curve) == list(other.curve)
        numpy.testing.assert_allclose(list(one.curve.values()), list(other.curve.values()), rtol=1e-5)
        numpy.testing.assert_allclose([one.value, one.spread], [other.value, other.spread], rtol=1e-4)  # type: ignore[arg-type]
        ways = {"alone" if one.params["lazy"] else "fused"}
        assert {result.how.partition(" ")[0].strip(",:") for result in one.result} == ways
