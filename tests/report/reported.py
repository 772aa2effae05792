"""Runs to report on: one of each verb, small, with names that a page must not take for markup."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy

import tenfold
from tenfold.cli import demo
from tenfold.cli.workflow import Found, Step
from tenfold.report.parts import Report
from tenfold.scaling.cells import PARTS, Cell, Setting, Taken

HOSTILE = "<script>alert('x')</script><img src=http://example.com/x.png>&\"'\x1b[31m\x00"


def mapped(folder: Path, count: int = 12) -> Path:
    """Tasks that report, some of which fail twice, all at one place, with a hostile message."""

    def train(item: int) -> dict[str, Any]:
        for step in range(5):
            tenfold.here().report(step, **{"loss": (item + 1) / (step + 1), "<b>bold</b>": step * 1.0})
        if item % 5 == 3:
            raise ValueError(f"item {item} {HOSTILE}")
        return {"square": item * item, HOSTILE: HOSTILE}

    train.__qualname__ = train.__name__ = HOSTILE
    path = folder / "map"
    tenfold.map(train, range(count), run=path, retries=1, on_error="collect", engine="serial", progress=False)
    return path


def objective(params: dict[str, Any]) -> dict[str, float]:
    """Of `tuned`: the nearer to 2 and the smaller, the better."""
    value = 0.0
    for step in range(4):
        value = (params["x"] - 2) ** 2 / (step + 1) + 10 * params["rate"]
        tenfold.here().report(step, loss=value)
    if params["x"] > 4:
        raise RuntimeError("too far")
    return {"loss": value}


SPACE = {
    "x": tenfold.uniform(-5, 5),
    "rate": tenfold.loguniform(1e-5, 1e-1),
    "kind": tenfold.choice("relu", "tanh", HOSTILE),
    "same": tenfold.constant(3),
}


def tuned(folder: Path, **options: Any) -> Any:
    """A study of 12 trials, some pruned and some failed."""
    given = {"trials": 12, "objective": "loss", "pruner": "asha", "steps": 4, "engine": "serial", "progress": False}
    return tenfold.tune(objective, SPACE, **{**given, "run": folder / "tune", **options})


def build(rate: float = 0.01) -> Any:
    import torch

    module = torch.nn.Linear(4, 1)
    return module, torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), lr=rate)


def fit() -> tenfold.Fit:
    """Small models."""
    x = numpy.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    return tenfold.Fit(build, data=(x, x.sum(axis=1, keepdims=True)), epochs=4, validation=0.25)


def trained(folder: Path) -> Path:
    """One of them."""
    tenfold.train(fit(), {"rate": 0.02}, run=folder / "train", progress=False)
    return folder / "train"


def half(sample: Any) -> Any:
    if sample[0] % 7 == 0:
        raise ValueError("seven")
    return sample[::2]


def prepared(folder: Path) -> Path:
    """A set of which some samples are left out."""
    x = numpy.arange(400).reshape(100, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that samples were left out
        tenfold.prepare(half, x, to=folder / "prepared", batch=10, engine="serial", progress=False)
    return folder / "prepared"


def predicted(folder: Path) -> Path:
    """Rows of a function."""
    x = numpy.arange(400.0).reshape(100, 4)
    tenfold.predict(lambda rows: rows.mean(axis=1), x, to=folder / "predicted", engine="serial", progress=False)
    return folder / "predicted"


def evaluated(folder: Path) -> Path:
    """Scores of a function."""
    x = numpy.arange(400.0).reshape(100, 4)
    options: dict[str, Any] = {"run": folder / "evaluate", "engine": "serial", "progress": False}
    tenfold.evaluate(lambda rows: rows.mean(axis=1), (x, x[:, 0]), ["mse"], **options)
    return folder / "evaluate"


def measured() -> Any:
    """A grid that was really measured."""

    def sleeps(workers: int, size: int) -> None:
        time.sleep(size * (0.0001 + 0.001 / workers))

    return tenfold.measure(sleeps, workers=[1, 2, 4], sizes=[10, 20, 40], repeats=2, progress=False)


def demonstrated(folder: Path, scaling: Any) -> Report:
    """The demo's page, about the search in that folder."""
    digits = numpy.arange(100) % 10
    names = ["accuracy", "confusion"]
    scores = tenfold.evaluate(lambda rows: rows, (digits, digits[::-1]), names, engine="serial", progress=False)
    steps = [Step("tune", "12 trials", 2.0, 60.0), Step("measure", "9 cells", 75.0, None, kept=True)]
    return demo.report(Found(folder, steps, None, None, scores, scaling))


def cells(workers: tuple[int, ...] = (1, 2, 4, 8), sizes: tuple[int, ...] = (1_000, 100_000)) -> list[Cell]:
    """A grid, measured three times each, with one setting that failed."""
    found = []
    for size in sizes:
        for count in workers:
            times = [(1 + 0.02 * repeat) * size / 500 * (0.2 + 0.8 / count) for repeat in range(3)]
            parts = [dict.fromkeys(PARTS, seconds / len(PARTS)) for seconds in times]
            taken = [Taken(t, size, p, 10**8, 0.9 * count, 5.0) for t, p in zip(times, parts, strict=True)]
            found.append(Cell(Setting(count, size), tuple(taken)))
    return [*found, Cell(Setting(16, sizes[0]), (), f"TaskDied: {HOSTILE}")]
