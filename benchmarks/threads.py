"""What does a thread budget gain when 2 mid-size models are trained at the same time?

A 784-512-512-10 network on 4,096 rows, batches of 512, 3 epochs, with Keras (TensorFlow) and with PyTorch. tenfold
gives each worker its part of the cores; joblib sets variables that PyTorch obeys and TensorFlow does not; with
multiprocessing each process takes the framework's default, which is all cores; the plain loop trains one after the
other on all cores. Timed from the first step to the last: imports and compiling are over by then. All must end with
the same loss. On a busy machine the default looks better than it is: more threads get a larger share of the cores.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import launch
from contest import TENFOLD, Report, Table, options, publish, say, spread, take_turns

REPEATS = 2
FRAMEWORKS = ("keras", "torch")
LIBRARIES = {
    TENFOLD: "tenfold",
    "joblib": "joblib",
    "multiprocessing, default threads": "multiprocessing",
    "plain loop, default threads": "loop",
}


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    epochs = 1 if chosen.quick else 3
    samples = {framework: measure(framework, epochs, chosen.repeats) for framework in FRAMEWORKS}
    rows = [row for framework, turns in samples.items() for row in _rows(framework, turns)]
    head = ("framework", "contestant", "median s", "turns", "s / tenfold's s", "threads of a process")
    title = f"2 trainings of {epochs} epochs"
    publish(Report(__doc__ or "", [Table(title, head, rows, words=2)], samples=samples), chosen)


def measure(framework: str, epochs: int, repeats: int) -> dict[str, list[Any]]:
    """Every turn of every contestant: what scripts/concurrent_trainings.py prints."""
    say(framework)
    with launch.environment() as variables:
        runs = {name: partial(_run, framework, library, epochs, variables) for name, library in LIBRARIES.items()}
        found = take_turns(runs, repeats)
    _refuse_disagreement({name: [loss for turn in turns for loss in turn["loss"]] for name, turns in found.items()})
    return found


def _run(framework: str, library: str, epochs: int, variables: dict[str, str]) -> Any:
    _, printed = launch.run(launch.command("concurrent_trainings", framework, library, epochs), variables)
    return json.loads(printed)


def _refuse_disagreement(losses: dict[str, list[float]]) -> None:
    expected = losses[TENFOLD][0]
    # Other thread counts add up in another order.
    if not all(math.isclose(loss, expected, rel_tol=1e-3) for found in losses.values() for loss in found):
        raise launch.ScriptFailed(f"the trainings disagree: {losses}")


def _rows(framework: str, found: dict[str, list[Any]]) -> Iterator[tuple[str, ...]]:
    seconds = {name: [turn["seconds"] for turn in turns] for name, turns in found.items()}
    ours = statistics.median(seconds[TENFOLD])
    for name, turns in found.items():
        middle = statistics.median(seconds[name])
        threads = str(max(turn["threads"][0] for turn in turns))
        yield framework, name, f"{middle:.2f}", spread(seconds[name]), f"{middle / ours:.2f}", threads


if __name__ == "__main__":
    main()
