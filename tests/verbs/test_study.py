"""What a study tells: its table, its pictures, what matters, and the same as a study of Optuna's."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest

import tenfold
from tenfold.errors import BadCall
from tenfold.search.objective import Objective
from tenfold.search.trial import Trial
from tenfold.verbs.tune import headline

SPACE = {
    "lr": tenfold.loguniform(1e-4, 1e-1),
    "width": tenfold.integer(1, 5),
    "optimizer": tenfold.choice(adam={}, sgd={"momentum": tenfold.uniform(0, 1)}),
    "loss": tenfold.constant("mse"),
}


def task(params: dict[str, Any]) -> dict[str, float]:
    if params["width"] == 5:
        raise ValueError("too wide")
    tenfold.here().report(0, value=1.0)
    return {"value": abs(math.log10(params["lr"]) + 2) + 0.01 * params["width"], "loss": 1.0}


@pytest.fixture(scope="module")
def study() -> tenfold.Study:
    found = tenfold.tune(task, SPACE, trials=30, objective="value", engine="serial", progress=False)
    found.plot().savefig(io.BytesIO())  # matplotlib keeps the files of its fonts open
    return found


def test_the_table_has_a_row_for_each_trial(study: tenfold.Study) -> None:
    frame = study.frame()
    assert list(frame.index) == list(range(30))
    assert set(frame.columns) == {
        *("lr", "width", "optimizer", "momentum", "loss"),
        *("value", "state", "steps", "seconds"),
    }
    assert set(frame["state"]) == {"complete", "failed"}
    assert frame["value"].isna().equals(frame["state"] == "failed")
    assert frame["momentum"].isna().equals(frame["optimizer"] == "adam")
    assert frame["value"].min() == study.best.value
    assert set(frame["loss"]) == {"mse"}


def test_a_parameter_that_is_called_like_a_result_has_its_own_column() -> None:
    space = {"state": [2, 1], "trial": 7}
    found = tenfold.tune(lambda p: p["state"], space, engine="serial", progress=False).frame()
    assert found["state"].tolist() == [2, 1]
    assert (found["trial"].tolist(), found.index.tolist()) == ([7, 7], [0, 1])
    assert found["state (result)"].tolist() == ["complete", "complete"]


def test_the_best_ones_in_their_order(study: tenfold.Study) -> None:
    values = [trial.value for trial in study.top(7)]
    assert values == sorted(values)
    assert len(values) == 7
    assert study.top(1)[0] is study.best
    assert len(study.top(1000)) == sum(trial.state == "complete" for trial in study.trials)
    assert study.top(0) == []


def test_what_matters(study: tenfold.Study) -> None:
    found = study.importance()
    assert next(iter(found)) == "lr"
    assert sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_what_matters_in_next_to_nothing() -> None:
    assert tenfold.tune(lambda p: p["x"], {"x": [1]}, engine="serial", progress=False).importance() == {"x": 1.0}
    failed = tenfold.tune(lambda p: 1 / 0, {"x": [1]}, engine="serial", progress=False)
    assert failed.importance() == {}
    failed.plot("importance")


@pytest.mark.parametrize("what", ["history", "parallel", "slices", "importance"])
def test_pictures_can_be_saved(what: Any, study: tenfold.Study, tmp_path: Path) -> None:
    study.plot(what).savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "pyplot" not in str(type(study.plot(what).canvas)), "no window, and nothing global"


@pytest.mark.parametrize("what", ["history", "parallel", "slices"])
@pytest.mark.parametrize("value", [1.0, math.nan, math.inf])
def test_pictures_of_next_to_nothing(what: Any, value: float, tmp_path: Path) -> None:
    found = tenfold.tune(lambda p: value, {"x": [1]}, engine="serial", progress=False)
    found.plot(what).savefig(tmp_path / "picture.png")


@pytest.mark.parametrize("what", ["history", "parallel", "slices"])
def test_pictures_of_a_study_whose_trials_all_failed(what: Any, tmp_path: Path) -> None:
    found = tenfold.tune(lambda p: 1 / 0, {"x": [1, 2]}, engine="serial", progress=False)
    found.plot(what).savefig(tmp_path / "picture.png")


def test_there_is_no_other_picture(study: tenfold.Study) -> None:
    with pytest.raises(BadCall, match="expected one of 'history', 'parallel', 'slices', 'importance'"):
        study.plot("contour")  # type: ignore[arg-type]


def test_the_same_trials_as_a_study_of_optunas(study: tenfold.Study) -> None:
    found = study.to_optuna()
    assert found.best_trial.number == study.best.number
    assert found.best_value == study.best.value
    names = {"COMPLETE": "complete", "FAIL": "failed"}
    assert [names[trial.state.name] for trial in found.trials] == [trial.state for trial in study.trials]
    for theirs, ours in zip(found.trials, study.trials, strict=True):
        assert {**theirs.params, "loss": "mse"} == ours.params
    assert found.trials[study.best.number].intermediate_values == {1: 1.0}


def test_for_people(study: tenfold.Study) -> None:
    told = repr(study)
    assert told.startswith("<Study: 30 trials, ")
    assert f"best value {study.best.value:.4g} (trial {study.best.number}: lr=" in told
    assert "loss=mse" in told


def test_the_best_so_far_while_it_runs() -> None:
    def trial(number: int, value: float | None, state: Any) -> Trial:
        return Trial(number, {"x": number}, state, None if value is None else (value,))

    looked_for = Objective(("loss",), ("minimize",))
    running = [trial(0, None, "running"), trial(1, None, "failed")]
    assert headline(running, looked_for) == "2 trials"
    assert headline([*running, trial(2, math.nan, "complete")], looked_for) == "3 trials"
    some = [trial(0, math.nan, "complete"), trial(1, 3.0, "pruned"), trial(2, 2.0, "pruned")]
    assert headline(some, looked_for) == "3 trials, best loss 2 (trial 2: x=2)"
    assert headline([*some, trial(3, 5.0, "complete")], looked_for) == "4 trials, best loss 5 (trial 3: x=3)"
    more = Objective((None,), ("maximize",))
    assert headline(some, more) == "3 trials, best value 3 (trial 1: x=1)"
    assert headline(some, Objective(("a", "b"), ("minimize",) * 2)) == "3 trials"


def test_a_function_has_no_model(study: tenfold.Study) -> None:
    with pytest.raises(BadCall, match="the task is a function"):
        _ = study.best.model
