"""`tenfold.tune` with functions: what they may return and report, pruners, populations, and calls that cannot work."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
import tune_tasks as tasks

import tenfold
import waiting
from tenfold.errors import BadCall, RunDiffers, TenfoldError
from tenfold.search.suggestions import quiet

GRID = {"x": [3, 1, 2]}


def tune(task: Any, space: Any = GRID, **more: Any) -> tenfold.Study:
    return tenfold.tune(task, space, **{"engine": "serial", "progress": False, **more})


# -- what a function brings back ---------------------------------------------------------------------------------------


def test_a_number_or_a_dict() -> None:
    study = tune(lambda p: p["x"] ** 2)
    assert [trial.value for trial in study.trials] == [9, 1, 4]
    assert (study.best.params, study.best.value, study.best.result) == ({"x": 1}, 1.0, 1)
    assert [trial.number for trial in study.top(2)] == [1, 2]
    study = tune(lambda p: {"size": p["x"], "accuracy": p["x"] / 10}, objective="accuracy")
    assert (study.direction, study.best.params, study.best.value) == ("maximize", {"x": 3}, 0.3)
    assert study.best.result == {"size": 3, "accuracy": 0.3}


def test_reports_alone() -> None:
    def task(params: dict[str, Any]) -> None:
        for step in range(3):
            tenfold.here().report(step, loss=params["x"] / (step + 1), other=step)

    study = tune(task, objective="loss")
    assert study.best.params == {"x": 1}
    assert study.best.curve == {1: 1.0, 2: 0.5, 3: pytest.approx(1 / 3)}
    assert study.best.steps == 3
    assert study.best.result is None


def test_what_is_not_there_is_a_failed_trial_that_says_so() -> None:
    study = tune(lambda p: {"loss": 1.0} if p["x"] == 1 else None, objective="loss")
    assert [trial.state for trial in study.trials] == ["failed", "complete", "failed"]
    assert "expected loss as what the task returns or reports; it returned None" in str(study.trials[0].error)
    assert study.best.number == 1
    with pytest.raises(TenfoldError, match="no trial of 3 came to its end: expected val_loss"):
        _ = tune(lambda p: {"loss": 1.0}, objective="val_loss").best
    ended = tenfold.tune(lambda params: float("nan"), {"a": [1, 2, 3]}, progress=False)
    with pytest.raises(TenfoldError, match="came to its end with a number as its value; 3 ended with NaN"):
        _ = ended.best


def test_a_failure_is_recorded_with_its_traceback_and_the_others_go_on() -> None:
    def task(params: dict[str, Any]) -> float:
        tenfold.here().report(0, loss=5.0)
        if params["x"] == 3:
            raise ValueError("three is bad")
        return float(params["x"])

    study = tune(task, engine="local", workers=2)
    failed = study.trials[0]
    assert failed.state == "failed"
    assert math.isnan(failed.value)
    assert 'raise ValueError("three is bad")' in str(failed.error)
    assert study.best.params == {"x": 1}
    assert "3 trials, 2 complete, 1 failed, best value 1 (trial 1: x=1)" in study.summary()
    assert isinstance(failed.result, tenfold.TaskError)


def test_a_failed_trial_is_tried_again_as_often_as_was_asked(tmp_path: Path) -> None:
    def task(params: dict[str, Any]) -> int:
        if tenfold.here().attempt < 2:
            raise OSError("once")
        return tenfold.here().attempt

    assert [trial.value for trial in tune(task, retries=1).trials] == [2, 2, 2]


def test_what_is_no_number_at_all() -> None:
    study = tune(lambda p: math.nan if p["x"] == 1 else [1.0, 2.0] if p["x"] == 2 else p["x"])
    assert [trial.state for trial in study.trials] == ["complete", "complete", "failed"]
    assert study.best.params == {"x": 3}, "a NaN is never the best"


def test_several_objectives() -> None:
    study = tune(
        lambda p: {"loss": (p["a"] - 0.2) ** 2, "accuracy": p["b"] * p["a"]},
        {"a": tenfold.uniform(0, 1), "b": tenfold.uniform(0, 1)},
        trials=20,
        sampler="nsga",
        objective=["loss", "accuracy"],
    )
    front = study.front
    assert 0 < len(front) < 20
    for one in front:
        assert not any(
            other.values[0] < one.values[0] and other.values[1] > one.values[1]  # type: ignore[index]
            for other in study.trials
        )
    with pytest.raises(BadCall, match="there are several objectives"):
        _ = study.best
    assert f"{len(front)} on the front" in study.summary()
    assert {"loss", "accuracy"} <= set(study.frame().columns)
    assert len(study.to_optuna().best_trials) == len(front)
    assert set(study.importance()) == {"a", "b"}
    study = tune(lambda p: {"a": p["x"], "b": math.nan if p["x"] == 1 else -p["x"]}, objective=["a", "b"])
    assert [trial.params["x"] for trial in study.front] == [3, 2], "what has no number is not on the front"


# -- how trials are suggested ------------------------------------------------------------------------------------------


def test_one_at_a_time_it_is_optunas_own_study() -> None:
    def task(params: dict[str, Any]) -> float:
        return float((params["x"] - 0.3) ** 2 + params["y"])

    space = {"x": tenfold.uniform(0, 1), "y": tenfold.loguniform(1e-3, 1)}
    found = tune(task, space, trials=25, at_once=1, seed=4)
    with quiet():
        expected = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=4))
        expected.optimize(
            lambda t: task({"x": t.suggest_float("x", 0, 1), "y": t.suggest_float("y", 1e-3, 1, log=True)}), 25
        )
    assert [trial.params for trial in found.trials] == [trial.params for trial in expected.trials]
    ahead = tune(task, space, trials=25, at_once=5, seed=4)
    assert [trial.params for trial in ahead.trials] != [trial.params for trial in found.trials]


@pytest.mark.parametrize("sampler", ["gp", "cma-es", "qmc"])
def test_every_other_sampler_one_at_a_time_is_optunas_own_study(sampler: str) -> None:
    def task(params: dict[str, Any]) -> float:
        return float((params["x"] - 0.3) ** 2 + (params["y"] - 0.6) ** 2)

    space = {"x": tenfold.uniform(0, 1), "y": tenfold.uniform(0, 1)}
    found = tune(task, space, trials=12, at_once=1, seed=4, sampler=sampler)
    makers: dict[str, Any] = {
        "gp": optuna.samplers.GPSampler,
        "cma-es": optuna.samplers.CmaEsSampler,
        "qmc": functools.partial(optuna.samplers.QMCSampler, scramble=True),
    }
    with quiet():
        expected = optuna.create_study(sampler=makers[sampler](seed=4))
        expected.optimize(lambda t: task({name: t.suggest_float(name, 0, 1) for name in space}), 12)
    assert [trial.params for trial in found.trials] == [pytest.approx(trial.params) for trial in expected.trials]
    ahead = tune(task, space, trials=12, seed=4, sampler=sampler)
    assert [trial.state for trial in ahead.trials] == ["complete"] * 12
    assert len({trial.params["x"] for trial in ahead.trials}) == 12, "those that are asked for together differ"


def test_the_same_seed_is_the_same_study_and_another_is_not() -> None:
    space = {"x": tenfold.uniform(0, 1)}
    one, same, other = (tune(lambda p: p["x"], space, trials=20, seed=seed) for seed in (1, 1, 2))
    assert tasks.told(one) == tasks.told(same)
    assert tasks.told(one) != tasks.told(other)


def test_a_grid_with_branches_needs_no_number_of_trials() -> None:
    space = {"o": tenfold.choice(adam={}, sgd={"m": [0, 9]}), "k": [1, 2]}
    study = tune(lambda p: p["k"] + p.get("m", 5), space)
    assert len(study.trials) == 6
    assert study.best.params == {"o": "sgd", "m": 0, "k": 1}
    assert len(tune(lambda p: p["k"], space, sampler="grid", trials=4).trials) == 4


def test_without_an_order_nobody_waits_for_a_slow_trial(tmp_path: Path) -> None:
    def task(params: dict[str, Any]) -> float:
        index = tenfold.here().index
        if index == 0:
            # long enough for the other worker to be forked by a nursery that is importing frameworks just now
            waiting.until(lambda: len(list(tmp_path.glob("done-*"))) >= 12, seconds=100)
        if index > 1:  # after a trial so quick that the next one was sent to wait behind the slow one
            time.sleep(0.05)
        (tmp_path / f"done-{tenfold.here().index}").touch()
        return float(params["x"])

    space = {"x": tenfold.uniform(0, 1)}
    study = tune(task, space, trials=14, asynchronous=True, engine="local", workers=2)
    assert [(trial.state, trial.error) for trial in study.trials] == [("complete", None)] * 14
    assert [trial.number for trial in study.trials] == list(range(14))


# -- pruners -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pruner", ["asha", "hyperband", tenfold.Asha(factor=2, least=2)])
@pytest.mark.parametrize("engine", ["serial", "local"])
def test_a_trial_that_goes_on_goes_on_from_its_checkpoint(pruner: Any, engine: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = tasks.training(log, checkpoint=True, first=1, stride=10)
    study = tune(task, tasks.SPACE, pruner=pruner, steps=tasks.STEPS, engine=engine, objective="loss")
    counts = tasks.done(log)
    assert set(counts.values()) == {1}, "no step is ever done twice"
    assert counts.total() == sum(trial.steps for trial in study.trials)
    assert counts.total() < 9 * tasks.STEPS, "not everybody came to the end"
    assert study.best.params == {"x": 0.9}
    assert study.best.steps == tasks.STEPS
    for trial in study.trials:
        expected = {step: tasks.loss(trial.params["x"], step) for step in range(1, trial.steps + 1)}
        assert trial.curve == pytest.approx(expected)
        assert trial.value == pytest.approx(expected[trial.steps])
        assert trial.state == ("complete" if trial.steps == tasks.STEPS else "pruned")


def test_asha_lets_the_best_third_go_on(tmp_path: Path) -> None:
    study = tune(tasks.training(tmp_path / "log", checkpoint=True), tasks.SPACE, pruner="asha", steps=9)
    assert [trial.steps for trial in study.trials] == [9, 3, 3, 1, 1, 1, 1, 1, 1]


def test_without_a_checkpoint_the_results_are_the_same_and_the_caller_is_told(tmp_path: Path) -> None:
    kept = tune(tasks.training(tmp_path / "a", checkpoint=True), tasks.SPACE, pruner="asha", steps=9)
    with pytest.warns(UserWarning, match="1 of 9 trials began again .* keep a checkpoint in tenfold.here") as warned:
        repeated = tune(tasks.training(tmp_path / "b", checkpoint=False), tasks.SPACE, pruner="asha", steps=9)
    assert warned[0].filename == __file__, "where the caller has called"
    assert tasks.told(repeated) == tasks.told(kept)
    counts = tasks.done(tmp_path / "b")
    assert counts["0.900000 1"] == 3
    assert counts["0.900000 9"] == 1


def test_median(tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = tasks.training(log, checkpoint=False)
    pruner = tenfold.Median(startup=3, warmup=2)
    study = tune(task, tasks.SPACE, pruner=pruner, at_once=1)
    assert [trial.steps for trial in study.trials] == [9, 9, 9, 3, 3, 3, 3, 3, 3]
    assert [trial.state for trial in study.trials] == ["complete"] * 3 + ["pruned"] * 6
    assert set(tasks.done(log).values()) == {1}


def test_patience() -> None:
    def task(params: dict[str, Any]) -> None:
        for step in range(20):
            tenfold.here().report(step, accuracy=min(step, params["x"]) - step / 100)

    study = tune(task, pruner=tenfold.Patience(steps=2), objective="accuracy")
    assert [trial.steps for trial in study.trials] == [x + 1 + 2 for x in GRID["x"]]
    assert [trial.value for trial in study.trials] == [pytest.approx(x - x / 100) for x in GRID["x"]], "its best"
    assert {trial.state for trial in study.trials} == {"complete"}
    assert study.best.params == {"x": 3}


def test_a_task_that_ends_before_it_was_to_pause_is_complete(tmp_path: Path) -> None:
    def task(params: dict[str, Any]) -> float:
        tenfold.here().report(0, loss=1.0)
        return 2.0

    study = tune(task, pruner=tenfold.Asha(least=2), steps=9)
    assert [(trial.state, trial.value) for trial in study.trials] == [("complete", 2.0)] * 3


# -- populations -------------------------------------------------------------------------------------------------------


def _walk(params: dict[str, Any]) -> dict[str, Any]:
    """Remembers at what speed each step was made: so one sees whose files a trial has gone on with."""
    here = tenfold.here()
    kept = here.folder / "deep" / "speeds"
    kept.parent.mkdir(exist_ok=True)
    speeds = json.loads(kept.read_text()) if kept.exists() else []
    while len(speeds) < 6:
        speeds.append(params["speed"])
        kept.write_text(json.dumps(speeds))
        here.report(len(speeds), walked=sum(speeds))
    return {"walked": sum(speeds), "speeds": speeds}


@pytest.mark.parametrize("engine", ["serial", "local"])
def test_a_population_goes_on_with_the_files_of_the_best(engine: str) -> None:
    space = {"speed": tenfold.uniform(1, 9), "name": tenfold.constant("walk")}
    more: dict[str, Any] = {"steps": 6, "objective": "walked", "direction": "maximize", "engine": engine}
    study = tune(_walk, space, trials=8, sampler=tenfold.Pbt(every=2), **more)
    assert [trial.state for trial in study.trials] == ["complete"] * 8
    late = [trial for trial in study.trials if trial.lineage and trial.lineage[-1]["step"] == 4]
    assert len(late) == 2
    for trial in late:
        donor = study.trials[trial.lineage[-1]["from"]]
        assert trial.result["speeds"][:4] == donor.result["speeds"][:4]
        assert trial.result["speeds"][4:] == [trial.params["speed"]] * 2
        assert trial.lineage[-1]["params"] == trial.params
        assert trial.params["name"] == "walk"
    assert {one["step"] for trial in study.trials for one in trial.lineage} == {2, 4}
    for trial in (trial for trial in study.trials if not trial.lineage):
        assert trial.result["speeds"] == [trial.params["speed"]] * 6, "nobody else's files were touched"
    plain = tune(_walk, space, trials=8, sampler="random", **more)
    assert min(t.value for t in study.trials) > min(t.value for t in plain.trials), "the worst have taken over"


def test_a_trial_that_does_not_end_where_it_is_told_to_ends_all_the_same() -> None:
    def caught(params: dict[str, Any]) -> float:
        for step in range(9):
            with contextlib.suppress(BaseException):
                tenfold.here().report(step, loss=params["x"])
        return 7.0

    def in_a_thread(params: dict[str, Any]) -> float:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(caught, params))
        thread.start()
        thread.join()
        return 7.0

    for task in (caught, in_a_thread):
        with pytest.warns(UserWarning, match="began again from their first step"):
            study = tune(task, {"x": [3, 1, 2]}, objective="loss", pruner="asha", steps=9)
        assert sorted(trial.steps for trial in study.trials) == [1, 1, 9]
        assert [trial.value for trial in study.trials] != [7.0] * 3


# -- what cannot work --------------------------------------------------------------------------------------------------


def test_all_faults_are_in_one_message(tmp_path: Path) -> None:
    with pytest.raises(BadCall) as found:
        tenfold.tune(
            lambda p: 1,
            {"x": tenfold.uniform(2, 1)},
            trials=0,
            at_once=-1,
            sampler="tpo",
            pruner="ascha",
            objective=["a", "b"],
            direction="up",
            cv=3,
            retries=-1,
            seed="x",  # type: ignore[arg-type]
            run="",
        )
    told = str(found.value)
    for fault in (
        "x: uniform(2, 1): the first must be below the second",
        "trials=0: expected a whole number above 0",
        "at_once=-1: expected a whole number above 0",
        "sampler='tpo': expected one of",
        "pruner='ascha': expected one of",
        "direction='up'",
        "cv=: folds are of a Fit; a function divides its rows itself",
        "objective=: with several, trials cannot be pruned",
        "retries=-1",
        "seed='x'",
        "run=''",
    ):
        assert fault in told, fault


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"task": 5, "trials": 2}, "task=5: expected a Fit, or a function"),
        ({"space": {"x": tenfold.uniform(0, 1)}}, "trials=None: expected how many to try"),
        ({"pruner": "asha"}, "steps=None: Asha has to know how often a trial reports in all; give steps="),
        ({"pruner": tenfold.Hyperband()}, "steps=None: Hyperband"),
        ({"sampler": "pbt", "trials": 4}, "steps=None: sampler='pbt' has to know how many steps"),
        ({"sampler": "pbt", "trials": 4, "steps": 5, "pruner": "asha"}, "with sampler='pbt', all trials go on"),
        ({"sampler": "grid", "space": {"x": tenfold.uniform(0, 1)}}, "the space has ranges of numbers"),
        ({"sampler": "cma-es", "trials": 3, "objective": ["a", "b"]}, "knows one objective, and there are 2"),
        ({"pruner": "asha", "steps": 2}, "of trials of 2 steps, none would be pruned"),
        ({"trials": True}, "trials=True: expected a whole number above 0"),
        ({"space": None, "trials": 3}, "space=None: expected a dict"),
    ],
)
def test_what_cannot_work(more: dict[str, Any], told: str) -> None:
    call = {"task": lambda p: 1, "space": GRID, **more}
    with pytest.raises(BadCall) as found:
        tune(call.pop("task"), call.pop("space"), **call)
    assert told in str(found.value)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"sampler": "tpe"}, {"sampler": "random"}, {"asynchronous": True}], ids=str)
def test_a_study_that_is_finished_is_read_and_not_run_again(more: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = tasks.training(log, checkpoint=True)
    call = {"trials": 40, "pruner": "asha", "steps": 9, "run": tmp_path / "run", **more}
    space = {"x": tenfold.uniform(0.1, 0.9)}
    first = tune(task, space, **call)
    counts = tasks.done(log)
    again = tune(task, space, **call)
    assert tasks.told(again) == tasks.told(first)
    assert tasks.done(log) == counts


@pytest.mark.parametrize("more", [{}, {"pruner": "asha", "steps": 9}], ids=["plain", "pruned"])
def test_what_failed_is_run_again_where_nobody_has_learned_from_it(more: dict[str, Any], tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def moody(params: dict[str, Any]) -> float:
        with open(begun, "a") as file:
            file.write("x")
        if params["x"] == 1 and not (tmp_path / "better").exists():
            raise ValueError("one is bad today")
        return float(params["x"])

    assert [trial.state for trial in tune(moody, run=tmp_path / "run", **more).trials].count("failed") == 1
    (tmp_path / "better").touch()
    study = tune(moody, run=tmp_path / "run", **more)
    assert [trial.state for trial in study.trials].count("failed") == (1 if more else 0)
    assert len(begun.read_text()) == (3 if more else 4)


@pytest.mark.parametrize(
    "more",
    [{"at_once": 2}, {"sampler": "qmc"}, {"sampler": optuna.samplers.TPESampler()}],
    ids=["at_once", "qmc", "an object"],
)
def test_a_study_can_be_made_longer_and_not_shorter(more: dict[str, Any], tmp_path: Path) -> None:
    log, space = tmp_path / "log", {"x": tenfold.uniform(0.1, 0.9)}
    task, call = tasks.training(log, checkpoint=False), {"run": tmp_path / "run", **more}
    first = tune(task, space, trials=11, **call)
    longer = tune(task, space, trials=14, **call)
    assert set(tasks.done(log).values()) == {1}, "no step is done twice"
    assert tasks.told(longer)[:11] == tasks.told(first)
    assert tasks.told(longer) == tasks.told(tune(task, space, trials=14, **more))
    with pytest.raises(RunDiffers, match="trials=11, and there were 14; a study can be made longer"):
        tune(task, space, trials=11, **call)


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    task = tasks.training(tmp_path / "log", checkpoint=True)
    space = {"x": [0.1, 0.2], "f": [len, abs]}
    call: dict[str, Any] = {"run": tmp_path / "run", "pruner": "asha", "steps": 9}
    tune(task, space, **call)
    assert len(tune(task, dict(space), **call).trials) == 4
    for changed, told in (
        ({"space": {**space, "f": [len, max]}}, "space has changed"),
        ({"steps": 8}, "steps has changed"),
        ({"seed": 1}, "seed has changed"),
        ({"pruner": "hyperband"}, "pruner has changed"),
        ({"trials": 2}, "trials has changed"),
    ):
        given = {"space": space, **call, **changed}
        with pytest.raises(RunDiffers, match=told):
            tune(task, given.pop("space"), **given)
    assert len(tune(task, {"x": [0.1]}, **call, fresh=True).trials) == 1
