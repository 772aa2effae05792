"""Can measurements be trusted, and what do they cost?

Cells that a fit has not seen are predicted from the others; a cell's time is compared with the same call timed by hand.
How long a projection to 10,000 workers, a page about a run of many tasks, and the whole demo take.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import numpy
from contest import Goal, Report, Table, at_most, options, publish, say, take_turns, timed

import tenfold
from tenfold.report.of_run import of_run
from tenfold.scaling.heldout import heldout
from tenfold.scaling.simulate import STRATEGIES

REPEATS = 3
WORKERS = len(os.sched_getaffinity(0))


def busy(seconds: float) -> None:
    """Keep a core busy."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def normalised(image: Any) -> Any:
    """A little work for each image."""
    return numpy.sqrt((image - image.mean()) ** 2) / (image.std() + 1e-6)


def build(lr: float = 0.01) -> Any:
    """A small net of PyTorch."""
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)


def tasks(quick: bool) -> dict[str, tuple[Any, list[int], Callable[[int], Any]]]:
    """Name -> what is measured, its sizes, and the same call by hand for a size, with all workers."""
    unit = 1 if quick else 8
    rng = numpy.random.default_rng(0)
    images = rng.random((4000 * unit, 32, 32))
    x, y = rng.normal(size=(2000 * unit, 64)).astype("float32"), rng.integers(0, 10, 2000 * unit)
    naps = [0.01] * (100 * unit)
    fit = tenfold.Fit(build, (x, y), epochs=3, batch_size=64)
    options_: dict[str, Any] = {"workers": WORKERS, "progress": False}

    def prepared(size: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            tenfold.prepare(normalised, images[:size], folder, **options_)

    def trained(size: int) -> None:
        small = tenfold.Fit(build, (x[:size], y[:size]), epochs=3, batch_size=64)
        tenfold.train(small, cpus=1, **options_)

    return {
        "map, 10 ms a task": (
            functools.partial(tenfold.map, busy, naps),
            _thirds(len(naps)),
            lambda size: tenfold.map(busy, naps[:size], **options_),
        ),
        "prepare": (functools.partial(tenfold.prepare, normalised, images), _thirds(len(images)), prepared),
        "train": (fit, _thirds(len(x)), trained),
    }


def _thirds(count: int) -> list[int]:
    return [count // 4, count // 2, count]


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    found = {name: _of_task(name, *task, chosen.repeats) for name, task in tasks(chosen.quick).items()}
    others = _others(chosen.quick)
    rows = [(name, *map(_percent, values)) for name, values in found.items()]
    head = ("task", "largest size, unseen: off by", "any cell, unseen: off by", "measured / by hand")
    tables = [Table("measurements", head, rows), Table("how long", ("", "seconds"), [*_told(others)])]
    goals = [_cost(name, values[2]) for name, values in found.items()]
    goals += [_accuracy(name, values[0]) for name, values in found.items()]
    goals += [at_most(f"{_projection(how)}, takes seconds", others[_projection(how)], 10, "s") for how in STRATEGIES]
    goals.append(at_most("the demo takes less than two minutes", others["tenfold demo"], 120, "s"))
    publish(Report(__doc__ or "", tables, goals, {"tasks": found, "others": others}), chosen)


def _of_task(name: str, task: Any, sizes: list[int], by_hand: Callable[[int], Any], repeats: int) -> list[float]:
    """How far off predictions are, and what a measured call takes in times of the same by hand."""
    say(name)
    study = tenfold.measure(task, workers=sorted({1, WORKERS}), sizes=sizes, repeats=repeats, progress=False)
    failures = [cell.failure for cell in study.cells if cell.failure]
    if failures:
        raise RuntimeError(f"{name}: {failures[0]}")
    largest = [cell.setting for cell in study.cells if cell.setting.size == sizes[-1]]
    (top,) = (cell for cell in study.cells if cell.setting.size == sizes[-1] and cell.setting.workers == WORKERS)
    seconds = take_turns({name: lambda: timed(lambda: by_hand(sizes[-1]))}, repeats)[name]
    return [heldout(study.cells, largest).error, study.heldout.error, top.seconds / sorted(seconds)[len(seconds) // 2]]


def _cost(name: str, ratio: float) -> Goal:
    return at_most(f"{name}: a measured call takes as long as the same by hand", ratio, 1.1)


def _accuracy(name: str, error: float) -> Goal:
    return at_most(f"{name}: the largest size, unseen, is off by", error, 0.25)


def _projection(how: str) -> str:
    return f"a projection to 10,000 workers: {how}"


def _project(how: str, **given: Any) -> Any:
    return tenfold.project(10_000, how=how, **given)  # type: ignore[arg-type]


def _others(quick: bool) -> dict[str, float]:
    given: dict[str, Any] = {"seconds_per_step": 0.2, "batch": 64, "parameters": 25e6, "network": "25Gbit"}
    faults: dict[str, Any] = {"spread": 0.1, "failures": 1e-3, "checkpoint": "10s"}
    count = 10_000 if quick else 1_000_000
    say("a projection, a page, the demo")
    with tempfile.TemporaryDirectory() as folder, launch.environment() as variables:
        run = Path(folder, "run")
        tenfold.map(abs, range(count), run=run, progress=False)
        words = ["--trials", "6"] if quick else []
        demo = [sys.executable, "-m", "tenfold.cli", "demo", "--run", str(Path(folder, "demo")), *words]
        return {
            **{_projection(how): timed(lambda how=how: _project(how, **given, **faults)) for how in STRATEGIES},
            f"a page about {count:,} tasks": timed(lambda: of_run(run).save(Path(folder, "page.html"))),
            "tenfold demo": launch.run(demo, variables)[0],
        }


def _told(others: dict[str, float]) -> list[tuple[str, str]]:
    return [(name, f"{seconds:.2f}") for name, seconds in others.items()]


def _percent(value: float) -> str:
    return f"{value:.0%}"


if __name__ == "__main__":
    main()
