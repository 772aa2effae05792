"""Studies that are killed and repeated: the trials of an undisturbed one, and nothing that was done is done again."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy
import pytest
import studies

import leftovers
import scripts
import waiting

KILLS = 2


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    found = studies.told(scripts.run(folder, studies.script(folder, run=None, seconds=0)).out)
    assert set(studies.done(folder).values()) == {1}
    assert len({one[2] for one in found}) == 2, "some are pruned, some are not"
    return found


def gone() -> None:
    """Workers of a killed caller go by themselves; they must not be in the next one's way."""
    waiting.until(lambda: not leftovers.processes(), 10)


@pytest.mark.slow
def test_a_killed_study_goes_on_with_the_same_trials(tmp_path: Path, undisturbed: list[Any]) -> None:
    text = studies.script(tmp_path)
    moments = random.Random(1)
    finished: dict[tuple[float, int], int] = {}
    for kills in range(KILLS + 1):
        steps = studies.done(tmp_path).total() + moments.randint(3, 15)
        with scripts.started(tmp_path, text) as script:
            if kills == KILLS:
                ended = script.end(60)
                break
            waiting.until(lambda: studies.done(tmp_path).total() >= steps or script.process.poll() is not None)
            assert script.process.poll() is None, script.err
            script.kill()
        gone()
        finished |= {step: studies.done(tmp_path)[step] for step in studies.committed(tmp_path / "run")}
    assert ended.status == 0, ended.err
    assert studies.told(ended.out) == undisturbed
    assert finished
    counts = studies.done(tmp_path)
    assert {step: counts[step] for step in finished} == finished, "a finished leg was run again"
    assert counts.total() <= len(counts) + 2 * KILLS, "of what was under way, a step of each worker"
    assert len(counts) == sum(one[4] for one in undisturbed)


@pytest.mark.slow
def test_a_killed_population_goes_on_with_the_same_exchanges(tmp_path: Path) -> None:
    """Files are copied from one trial to another once, and not from one that has gone on since."""
    (folder := tmp_path / "undisturbed").mkdir()
    search = "sampler=tenfold.Pbt(every=3)"
    expected = studies.told(scripts.run(folder, studies.script(folder, run=None, seconds=0, search=search)).out)
    text = studies.script(tmp_path, search=search, seconds=0.01)
    for steps in (50, 90, 0):  # after the first exchange, and after the second
        with scripts.started(tmp_path, text) as script:
            if not steps:
                ended = script.end(60)
                break
            waiting.until(lambda: studies.done(tmp_path).total() >= steps or script.process.poll() is not None)
            assert script.process.poll() is None, script.err
            script.kill()
        gone()
    assert ended.status == 0, ended.err
    assert studies.told(ended.out) == expected
    total = studies.TRIALS * studies.STEPS
    assert total <= studies.done(tmp_path).total() <= total + 4, "of what was under way, a step of each worker"


@pytest.mark.parametrize("engine", ["local", "joblib"])
def test_a_killed_worker_changes_nothing(engine: str, tmp_path: Path, undisturbed: list[Any]) -> None:
    """In the middle of a leg: the trial goes on from its checkpoint, and counts on from there, too."""
    (tmp_path / "die").touch()
    ended = scripts.run(tmp_path, studies.script(tmp_path, seconds=0, options=f"engine={engine!r}"))
    assert not (tmp_path / "die").exists(), "nobody was killed"
    assert studies.told(ended.out) == undisturbed
    counts = studies.done(tmp_path)
    # joblib ends the other worker as well, perhaps between a step and its checkpoint.
    assert counts.total() - len(counts) <= (1 if engine == "joblib" else 0)


def test_ctrl_c_then_the_same_call(tmp_path: Path, undisturbed: list[Any]) -> None:
    text = studies.script(tmp_path)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(studies.legs(tmp_path / "run")) >= 5 or script.process.poll() is not None)
        script.interrupt()
        ended = script.end(15)
    assert ended.status == -signal.SIGINT
    assert "the same call continues the run in" in ended.err
    assert "trials, best value 0." in ended.err, "how far it had come"
    gone()
    finished = {step: studies.done(tmp_path)[step] for step in studies.committed(tmp_path / "run")}
    again = scripts.run(tmp_path, text)
    assert studies.told(again.out) == undisturbed
    counts = studies.done(tmp_path)
    assert {step: counts[step] for step in finished} == finished


@pytest.mark.slow
def test_without_an_order_what_was_finished_is_kept(tmp_path: Path) -> None:
    """Those that were under way are suggested anew, and begin without the files of those that they replace."""
    text = studies.script(tmp_path, options="asynchronous=True")
    kept: dict[int, tuple[float, int]] = {}
    for kills in range(KILLS + 1):
        wanted = len(studies.legs(tmp_path / "run")) + 6
        with scripts.started(tmp_path, text) as script:
            if kills == KILLS:
                ended = script.end(60)
                break
            waiting.until(lambda: len(studies.legs(tmp_path / "run")) >= wanted or script.process.poll() is not None)
            assert script.process.poll() is None, script.err
            script.kill()
        gone()
        for leg, tried in studies.legs(tmp_path / "run"):
            kept[leg.trial] = max(kept.get(leg.trial, (0.0, 0)), (leg.params["x"], tried.steps))
        before = {step: studies.done(tmp_path)[step] for step in studies.committed(tmp_path / "run")}
    assert ended.status == 0, ended.err
    found = studies.told(ended.out)
    assert len(found) == studies.TRIALS
    for number, (x, steps) in kept.items():
        assert found[number][1] == {"x": x}
        assert found[number][4] >= steps, "it is as far as it was"
    counts = studies.done(tmp_path)
    assert {step: counts[step] for step in before} == before
    for _, params, state, value, steps, curve in found:
        assert curve == [[n, pytest.approx((1 - params["x"] / 10) ** n)] for n in range(1, steps + 1)]
        assert value == curve[-1][1]
        assert state == ("complete" if steps == studies.STEPS else "pruned")


# -- models ------------------------------------------------------------------------------------------------------------

_MODELS = """
    import json, os, pathlib
    import numpy
    import tenfold

    folder = pathlib.Path({folder!r})
    x = numpy.random.default_rng(0).normal(size=(96, 5)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")

    def build(lr):
        import torch
        from tenfold.fuse import checkpoint
        checkpoint.BEFORE_FIRST = 0.0  # in the worker: seconds of training that are not worth a file
        (pathlib.Path({folder!r}) / f"worker-{{os.getpid()}}").touch()
        module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)

    fit = tenfold.Fit(build, (x, y), epochs=90, batch_size=16, {fit})
    study = tenfold.tune(
        fit, {{"lr": tenfold.loguniform(1e-4, 1e-1)}}, trials=6, run={run!r}, workers=1, progress=False, {search},
    )
    told = [[t.number, t.params, t.state, t.steps, list(t.curve.values())] for t in study.trials]
    print(json.dumps([told, [[r.index, r.step] for r in study.results.reports()]]))
"""


RUNGS = {"fit": "validation=0.25", "search": "pruner=tenfold.Asha(least=30), at_once=3"}
POPULATION = {"fit": "", "search": "sampler=tenfold.Pbt(every=30), cv=2"}


def models(folder: Path, run: str | None = "run", given: dict[str, str] = RUNGS) -> str:
    return _MODELS.format(folder=str(folder), run=run, **given)


def check_same(found: list[Any], expected: list[Any]) -> None:
    assert [one[:4] for one in found] == [one[:4] for one in expected]
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one[4], other[4], rtol=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("trained")
    found, reports = json.loads(scripts.run(folder, models(folder, None), seconds=120).out)
    assert {one[2] for one in found} == {"complete", "pruned"}
    assert len(reports) == sum(one[3] for one in found)
    return list(found)


def checkpoints(run: Path) -> dict[str, int]:
    """When each was written."""
    return {path.name: path.stat().st_mtime_ns for path in run.glob("tasks/shared/fits/*.checkpoint")}


@pytest.mark.slow
def test_a_study_of_models_whose_worker_and_whose_caller_are_killed(tmp_path: Path, trained: list[Any]) -> None:
    """First the worker, in the first group; then the caller, when that is in the journal and others are under way."""
    run, text = tmp_path / "run", models(tmp_path)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: checkpoints(run) or script.process.poll() is not None, 60)
        os.kill(int(next(tmp_path.glob("worker-*")).name.partition("-")[2]), signal.SIGKILL)
        waiting.until(lambda: len(studies.legs(run)) >= 3 or script.process.poll() is not None, 60)
        before = checkpoints(run)
        waiting.until(lambda: checkpoints(run) != before or script.process.poll() is not None, 60)
        assert script.process.poll() is None, script.err
        script.kill()
    gone()
    assert len(list(tmp_path.glob("worker-*"))) == 2
    found, reports = json.loads(scripts.run(tmp_path, text, seconds=120).out)
    check_same(found, trained)
    steps = sum(one[3] for one in trained)
    assert len(reports) < steps + 3 * 30, "what was under way did not begin anew"
    assert not checkpoints(run), "what is finished needs no checkpoint"


@pytest.mark.slow
def test_a_killed_population_of_models_with_folds(tmp_path: Path) -> None:
    """In the second round, when weights were exchanged: the same parameters, and what was done is not done again."""
    (folder := tmp_path / "undisturbed").mkdir()
    expected, _ = json.loads(scripts.run(folder, models(folder, None, POPULATION), seconds=120).out)
    assert {one[3] for one in expected} == {90}
    run, text = tmp_path / "run", models(tmp_path, given=POPULATION)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(studies.legs(run)) >= 6 * 2 or script.process.poll() is not None, 60)
        before = checkpoints(run)
        waiting.until(lambda: checkpoints(run) != before or script.process.poll() is not None, 60)
        assert script.process.poll() is None, script.err
        script.kill()
    gone()
    found, reports = json.loads(scripts.run(tmp_path, text, seconds=120).out)
    check_same(found, expected)
    assert len(reports) < 6 * 2 * (90 + 30), "what was under way did not begin anew"
