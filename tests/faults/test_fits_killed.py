"""Groups of models that are killed: between epochs nothing is lost, and the numbers are those of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import scripts
import waiting

_SCRIPT = """
    import json, os, pathlib, sys, time
    import numpy
    import tenfold

    folder = pathlib.Path({folder!r})
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(64, 5)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")

    def build(lr):
        import keras
        from keras import layers
        import pathlib, os
        (pathlib.Path({folder!r}) / f"worker-{{os.getpid()}}").touch()
        model = keras.Sequential([keras.Input((5,)), layers.Dense(8), layers.Dropout(0.3), layers.Dense(2)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(lr), loss)
        return model

    fit = tenfold.Fit(build, (x, y), epochs={epochs}, batch_size=16, validation=0.25)
    items = [dict(lr=0.001 * (n + 1), seed=n) for n in range(4)]
    results = tenfold.map(fit, items, run={run!r}, workers=1, progress=False)
    print(json.dumps([[r.history, [w.tolist() for w in r.weights], r.how] for r in results]))
    reports = [report.step for report in results.reports(0)]
    print(json.dumps(reports))
"""

EPOCHS = 3000  # a few seconds: checkpoints are written only after the first one


def text(folder: Path, run: str | None) -> str:
    return _SCRIPT.format(folder=str(folder), run=run, epochs=EPOCHS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    ended = scripts.run(folder, text(folder, None), seconds=120)
    return list(json.loads(ended.out.splitlines()[0]))


def checkpoint(run: Path) -> bool:
    return any(run.glob("tasks/shared/fits/*.checkpoint"))


def entries(run: Path) -> set[str]:
    """What is kept of compilations."""
    return {path.name for path in run.glob("tasks/shared/compiled/*-cache")}


@pytest.mark.slow
def test_a_killed_worker_costs_an_epoch_not_the_training(tmp_path: Path, undisturbed: list[object]) -> None:
    with scripts.started(tmp_path, text(tmp_path, "run")) as script:
        waiting.until(lambda: checkpoint(tmp_path / "run"), 60)
        worker = int(next(tmp_path.glob("worker-*")).name.partition("-")[2])
        os.kill(worker, signal.SIGKILL)
        ended = script.end(120)
    assert ended.status == 0, ended.err
    _same(json.loads(ended.out.splitlines()[0]), undisturbed)
    assert len(list(tmp_path.glob("worker-*"))) == 2
    assert not checkpoint(tmp_path / "run"), "what is finished needs no checkpoint"


@pytest.mark.slow
def test_a_killed_caller_goes_on_from_the_last_checkpoint(tmp_path: Path, undisturbed: list[object]) -> None:
    with scripts.started(tmp_path, text(tmp_path, "run")) as script:
        waiting.until(lambda: checkpoint(tmp_path / "run"), 60)
        script.kill()
    compiled = entries(tmp_path / "run")
    assert compiled
    ended = scripts.run(tmp_path, text(tmp_path, "run"), seconds=120)
    found, steps = (json.loads(line) for line in ended.out.splitlines()[:2])
    _same(found, undisturbed)
    assert entries(tmp_path / "run") >= compiled
    assert len([name for name in entries(tmp_path / "run") if name.startswith("jit_advance")]) == 1, "compiled once"
    again = [step for place, step in enumerate(steps) if step in steps[:place]]
    assert len(again) < EPOCHS / 2, "it did not start from the beginning"
    assert steps[-1] == EPOCHS - 1


def _same(found: list[list[object]], expected: list[object]) -> None:
    """To the last bit: the models go on as they were."""
    assert [[history, weights] for history, weights, _ in found] == [
        [history, weights]
        for history, weights, _ in expected  # type: ignore[misc]
    ]
