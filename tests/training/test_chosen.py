"""`tenfold.train` without `workers=`: the fastest number of them, as measured, and the same weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nets
import pytest

import tenfold
from tenfold import machine
from tenfold.errors import TasksFailed

ONE, TWO = "1 worker with 1 core", "2 workers with 1 core each"
ROW = {"seed": 3, "row": 0.003}
"""Three milliseconds for each row: two workers need half of the time."""
STEP = {"seed": 3, "step": 0.05}
"""Fifty milliseconds for each step, whoever takes it: more workers save nothing."""
CORE: dict[str, Any] = {"cpus": 1, "progress": False}

pytestmark = pytest.mark.skipif(machine.look().cpus < 2, reason="there is one core, and nothing to choose")


@pytest.fixture(autouse=True)
def at_most_two() -> Iterator[None]:
    """The same on larger machines."""
    with tenfold.use("local", workers=2):
        yield


def fit(patience: int = 4) -> Any:
    """One that would take hours by its epochs. It stops when some were no better by far, which they never are."""
    stopping = tenfold.EarlyStopping("val_loss", patience=patience, min_delta=1e6, restore_best=False)
    return nets.fit(nets.build_costly, epochs=10**6, callbacks=[stopping])


def paces(plan: str) -> dict[str, float]:
    """Steps a second, by candidate; the one that was taken is first."""
    found = re.findall(r"(\d workers? with \d+ \w+(?: each)?): ([\d.]+) steps/s", plan)
    return {name: float(pace) for name, pace in found}


def test_one_is_taken_where_more_are_no_faster() -> None:
    trained = tenfold.train(fit(), STEP, **CORE)
    found = paces(trained.plan)
    assert list(found) == [ONE, TWO]
    assert found[TWO] < 1.1 * found[ONE] <= 22, "a step takes 50 ms at the least"
    assert trained.workers == 1
    assert trained.plan.startswith("1 at a time: ")
    assert trained.updates == 5 * 6, "steps that were only tried do not count"


def test_several_are_taken_where_they_are_faster() -> None:
    trained = tenfold.train(fit(), ROW, **CORE)
    found = paces(trained.plan)
    assert list(found) == [TWO, ONE]
    assert found[TWO] > 1.1 * found[ONE]
    assert trained.workers == 2
    assert trained.plan.startswith("2 at a time: ")
    one = tenfold.train(fit(), dict(ROW, row=0.0), workers=1, progress=False)
    assert nets.furthest(trained.weights, one.weights) < 1e-5
    assert trained.updates == one.updates


def test_fewer_cores_are_taken_where_they_are_faster_and_kept_by_the_run(tmp_path: Path) -> None:
    params = {"seed": 3, "core": 0.004 / machine.look().cpus}
    settings: dict[str, Any] = {"progress": False, "run": tmp_path / "run"}
    with tenfold.use("local", workers=1):
        trained = tenfold.train(fit(40), params, **settings)
    found = paces(trained.plan)
    assert next(iter(found)) == ONE, trained.plan
    assert f"1 worker with {machine.look().cpus:g} cores" in found
    assert re.match(r"1 at a time: seat 0 \(core \d+\)\n", trained.plan), trained.plan
    again = tenfold.train(fit(40), params, **settings)
    assert not again.events
    assert again.plan.splitlines()[1:] == trained.plan.splitlines()[1:]
    whole = tenfold.train(fit(40), {"seed": 3}, workers=1, progress=False)
    assert nets.furthest(trained.weights, whole.weights) < 1e-5
    assert trained.updates == whole.updates


def test_those_who_cannot_train_are_not_taken(tmp_path: Path) -> None:
    settings = {**CORE, "run": tmp_path / "run"}
    trained = tenfold.train(fit(), dict(ROW, whole=True), **settings)
    assert trained.workers == 1
    assert list(paces(trained.plan)) == [ONE]
    assert re.search(rf"; {TWO}: .*half of a batch", trained.plan), trained.plan
    assert trained.updates == 5 * 6


def test_gpus_are_divided_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "2")
    trained = tenfold.train(fit(), ROW, gpus=1, **CORE)
    assert list(paces(trained.plan)) == ["2 workers with 1 GPU each", "1 worker with 1 GPU"]
    assert "GPU 0" in trained.plan
    assert "GPU 1" in trained.plan


def test_a_short_training_is_left_to_the_one_that_has_begun() -> None:
    trained = tenfold.train(nets.fit(nets.build_costly, epochs=2), STEP, **CORE)
    assert trained.workers == 1
    assert list(paces(trained.plan)) == [ONE]
    assert re.search(
        r"about [\d.]+ s were left, and to try 2 workers with 1 core each could take [\d.]+ s", trained.plan
    )
    assert len(trained.events) == 1, "nobody was sent away"
    over = tenfold.train(nets.fit(epochs=1), {"seed": 3}, **CORE)
    assert f"{ONE}: it was over before its steps were timed" in over.plan


def test_what_cannot_be_divided_is_not_measured() -> None:
    whole = machine.look().cpus
    alone = tenfold.train(nets.fit(epochs=1), {"seed": 3}, cpus=whole, progress=False)
    assert alone.plan.endswith("because there is no more to divide")
    serial = tenfold.train(nets.fit(epochs=1), {"seed": 3}, engine="serial", progress=False)
    assert serial.plan.endswith("because this engine has no processes for more")


def test_a_number_that_is_given_is_obeyed() -> None:
    trained = tenfold.train(nets.fit(nets.build_costly, epochs=2), STEP, workers=2, progress=False)
    assert trained.workers == 2
    assert "steps/s" not in trained.plan


def test_a_run_keeps_what_was_chosen(tmp_path: Path) -> None:
    """It is broken off after the choice, with a checkpoint; then it goes on, and then it is finished."""
    settings = {**CORE, "run": tmp_path / "run", "checkpoint": 4}
    params = dict(ROW, folder=str(tmp_path), at=25)
    with pytest.raises(TasksFailed, match="once"):
        tenfold.train(fit(), params, **settings)
    resumed = tenfold.train(fit(), params, **settings)
    assert resumed.workers == 2, (resumed.plan, resumed.events)
    assert list(paces(resumed.plan)) == [TWO, ONE]
    assert "2 of 2 workers go on at step" in resumed.events[0]
    assert not resumed.events[0].endswith("at step 0")
    one = tenfold.train(fit(), dict(ROW, row=0.0), workers=1, progress=False)
    assert nets.furthest(resumed.weights, one.weights) < 1e-5
    again = tenfold.train(fit(), params, **settings)
    assert not again.events
    assert again.plan.splitlines()[1:] == resumed.plan.splitlines()[1:]
    assert nets.furthest(again.weights, resumed.weights) == 0


def test_a_run_that_is_started_anew_has_no_checkpoint(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"workers": 1, "run": tmp_path / "run", "checkpoint": 5, "progress": False}
    tenfold.train(nets.fit(), {"seed": 3}, **settings)
    assert (tmp_path / "run" / "train.checkpoint").exists()
    anew = tenfold.train(nets.fit(), {"seed": 3}, fresh=True, **settings)
    assert anew.events[0].endswith("1 of 1 workers go on at step 0")
