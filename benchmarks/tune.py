"""How long does a search take with tenfold, and with the tools that people use today?

Three questions, whole scripts from a cold interpreter to its exit unless it says warm, contestants in turns, 2 cores:

- A grid search over a Keras classifier on the digits, 3 learning rates x 3 folds and 32 x 3, 10 epochs: GridSearch of
  `tenfold.sklearn` against scikit-learn's GridSearchCV over scikeras with n_jobs=-1.
- 64 trials by successive halving (factor 3, at most 27 epochs): `tenfold.tune` with ASHA against Optuna in 4 processes,
  KerasTuner's Hyperband (as many trials as its brackets have), Ray Tune's ASHA, and HalvingGridSearchCV, on the same
  rows and the same grid, in another order in each turn: in all, and until a val_loss that everybody reaches in that
  turn, which is the worst of their best ones.
- scikit-learn's own GridSearchCV of an SVC and of a random forest, under tenfold's joblib backend and under loky, cold
  and warm (benchmarks/joblib_backend.py).

What is known so far is printed after each contestant. One that fails is left out, with its reason; one that is given
up after LIMIT seconds counts with what it had noted until then.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import contest
import joblib_backend
import launch
from contest import TENFOLD, Goal, Options, Report, Table, at_least, medians, publish, say, spread, take_turns

from fuse import digits

REPEATS = 1
GRIDS = {3: 5.0, 32: 20.0}
"""Learning rates -> how many times the speed of GridSearchCV."""
TRIALS, EPOCHS, FASTER = 64, 27, 5.0
SCIKERAS = "GridSearchCV, scikeras"
HALVING = {
    TENFOLD: "tenfold",
    "Optuna, 4 processes": "optuna",
    "KerasTuner Hyperband": "kerastuner",
    "Ray Tune ASHA": "raytune",
    "HalvingGridSearchCV": "sklearn",
}

launch.LIMIT = 900.0  # the slowest takes 200 s


def main() -> None:
    chosen = contest.options(__doc__, repeats=REPEATS)
    tables: list[Table] = []
    goals: list[Goal] = []
    for rates, factor in GRIDS.items():
        middle = medians(grid(rates, chosen, tables))
        ratio = middle[SCIKERAS] / middle[TENFOLD]
        goals.append(at_least(f"grid search of {rates} x 3 against GridSearchCV", ratio, factor))
    halved = halving(chosen)
    tables.append(halved.table())
    goals += halved.goals()
    backends = {model: joblib_backend.measure(model, chosen) for model in joblib_backend.MODELS}
    tables += [
        joblib_backend.table(how, {model: turns[how] for model, turns in backends.items()})
        for how in joblib_backend.GOALS
    ]
    goals += joblib_backend.goals(backends)
    publish(Report(__doc__ or "", tables, goals, {}), chosen)


# -- grid search ------------------------------------------------------------------------------------------------------


def grid(rates: int, chosen: Options, tables: list[Table]) -> dict[str, list[float]]:
    epochs = 1 if chosen.quick else 10
    with launch.environment() as cold:
        names = {TENFOLD: "tenfold", SCIKERAS: "scikeras"}
        runs: dict[str, Callable[[], float]] = {
            name: partial(searched, contestant, rates, epochs, cold) for name, contestant in names.items()
        }
        seconds = take_turns(runs, chosen.repeats)
    tables.append(timed(f"grid search, {rates} learning rates x 3 folds", seconds))
    say(tables[-1].text())
    return seconds


def searched(contestant: str, rates: int, epochs: int, cold: dict[str, str]) -> float:
    seconds, printed, why = attempted(launch.command("keras_grid", contestant, rates, epochs, digits()), cold)
    say(f"{contestant}: {rates} rates in {seconds:.1f} s, {why or printed.strip().splitlines()[-1]}")
    return seconds


def attempted(words: Sequence[str], cold: dict[str, str]) -> tuple[float, str, str]:
    """Seconds and output of a script, and why it did not come to its end; NaN where that is its own fault."""
    try:
        return *launch.run(words, cold), ""
    except subprocess.TimeoutExpired:
        return launch.LIMIT, "", f"given up after {launch.LIMIT:g} s"
    except launch.ScriptFailed as error:
        return math.nan, "", f"failed: {error}"


def timed(title: str, seconds: dict[str, list[float]]) -> Table:
    middle = medians(seconds)
    rows = [(n, f"{v:.1f}", spread(seconds[n]), f"{v / middle[TENFOLD]:.1f}") for n, v in middle.items()]
    return Table(title, ("contestant", "median s", "turns", "s / tenfold's s"), rows)


# -- halving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """What a contestant has done."""

    seconds: float
    """From the start of its interpreter to its exit, or until it was given up."""
    noted: list[tuple[float, float]]
    """Seconds since that start, and the val_loss that was seen then; in order, at least one."""

    @property
    def best(self) -> float:
        return min(loss for _, loss in self.noted)

    def until(self, level: float) -> float:
        """Seconds to a val_loss."""
        return next(at for at, loss in self.noted if loss <= level)


class Halved:
    """The turns of everybody so far."""

    def __init__(self, trials: int, epochs: int) -> None:
        self._trials = trials
        self._epochs = epochs
        self._rounds: list[dict[str, Turn]] = []

    def add(self, name: str, number: int, turn: Turn) -> None:
        while len(self._rounds) <= number:
            self._rounds.append({})
        self._rounds[number][name] = turn

    def table(self) -> Table:
        in_all, until = self._in_all(), self._until()
        levels = " and ".join(f"{level(turns):.4f}" for turns in self._rounds)
        head = ("contestant", "median s", "turns", "s / tenfold's s", f"s to {levels}", "/ tenfold's", "best")
        rows = [
            (
                name,
                f"{statistics.median(seconds):.1f}",
                spread(seconds),
                ratio(medians(in_all), name),
                f"{statistics.median(until[name]):.1f}",
                ratio(medians(until), name),
                " ".join(f"{turns[name].best:.4f}" for turns in self._rounds if name in turns),
            )
            for name, seconds in in_all.items()
        ]
        return Table(f"{self._trials} trials by successive halving, at most {self._epochs} epochs", head, rows)

    def goals(self) -> list[Goal]:
        goals = []
        for what, found in (("in all", medians(self._in_all())), ("to the same val_loss", medians(self._until()))):
            best = min((value for name, value in found.items() if name != TENFOLD), default=math.nan)
            text = f"{self._trials} trials by halving, {what}, against the best of {len(found) - 1} peers"
            goals.append(at_least(text, best / found.get(TENFOLD, math.nan), FASTER))
        return goals

    def _in_all(self) -> dict[str, list[float]]:
        return self._each(lambda _, turn: turn.seconds)

    def _until(self) -> dict[str, list[float]]:
        return self._each(lambda turns, turn: turn.until(level(turns)))

    def _each(self, value: Callable[[Mapping[str, Turn], Turn], float]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for turns in self._rounds:
            for name, turn in turns.items():
                found.setdefault(name, []).append(value(turns, turn))
        return found


def level(turns: Mapping[str, Turn]) -> float:
    """The val_loss that everybody has reached."""
    return max((turn.best for turn in turns.values()), default=math.nan)


def halving(chosen: Options) -> Halved:
    trials, epochs = (8, 3) if chosen.quick else (TRIALS, EPOCHS)
    so_far = Halved(trials, epochs)
    with launch.environment() as cold:
        runs = {name: partial(halved, name, itertools.count(), trials, epochs, cold, so_far) for name in HALVING}
        take_turns(runs, chosen.repeats)
    return so_far


def halved(name: str, numbers: Iterator[int], trials: int, epochs: int, cold: dict[str, str], so_far: Halved) -> None:
    """One contestant's turn, which has the next of the numbers."""
    number = next(numbers)
    with tempfile.TemporaryDirectory(prefix="halving-", ignore_cleanup_errors=True) as folder:
        words = launch.command("halving", HALVING[name], trials, epochs, digits(), folder, number)
        began = time.time()
        seconds, _, why = attempted(words, cold)
        lines = [line for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    if math.isnan(seconds) or not lines:
        say(f"{name} is left out: {why or 'it has noted nothing'}")
        return
    noted = sorted((at - began, loss) for at, loss in map(json.loads, lines))
    so_far.add(name, number, Turn(seconds, noted))
    say(f"{name}: {len(noted)} losses in {seconds:.1f} s {why}\n\n{so_far.table().text()}\n")


def ratio(found: Mapping[str, float], name: str) -> str:
    return f"{found[name] / found.get(TENFOLD, math.nan):.1f}"


if __name__ == "__main__":
    main()
