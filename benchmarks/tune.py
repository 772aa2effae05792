"""How long does a search take with tenfold, and with the tools that people use today?

Three questions, whole scripts from a cold interpreter to its exit unless it says warm, contestants in turns, 2 cores:

- A grid search over a Keras classifier on the digits, 3 learning rates x 3 folds and 32 x 3, 10 epochs: GridSearch of
  `tenfold.sklearn` against scikit-learn's GridSearchCV over scikeras with n_jobs=-1.
- 64 trials by successive halving (factor 3, at most 27 epochs): `tenfold.tune` with ASHA against Optuna in 4 processes,
  KerasTuner's Hyperband, Ray Tune's ASHA, and HalvingGridSearchCV: in all, and until a val_loss that everybody reaches.
- scikit-learn's own GridSearchCV of an SVC and of a random forest, under tenfold's joblib backend and under loky, cold
  and warm (benchmarks/joblib_backend.py).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
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
HALVING = {
    TENFOLD: "tenfold",
    "Optuna, 4 processes": "optuna",
    "KerasTuner Hyperband": "kerastuner",
    "Ray Tune ASHA": "raytune",
    "HalvingGridSearchCV": "sklearn",
}

launch.LIMIT = 1800.0


def main() -> None:
    chosen = contest.options(__doc__, repeats=REPEATS)
    tables: list[Table] = []
    goals: list[Goal] = []
    for rates, factor in GRIDS.items():
        seconds = grid(rates, chosen)
        tables.append(timed(f"grid search, {rates} learning rates x 3 folds", seconds))
        middle = medians(seconds)
        ratio = middle["GridSearchCV, scikeras"] / middle[TENFOLD]
        goals.append(at_least(f"grid search of {rates} x 3 against GridSearchCV", ratio, factor))
    halved = halving(chosen)
    tables += halved[0]
    goals += halved[1]
    backends = {model: joblib_backend.measure(model, chosen) for model in joblib_backend.MODELS}
    tables += [
        joblib_backend.table(how, {model: turns[how] for model, turns in backends.items()})
        for how in joblib_backend.GOALS
    ]
    goals += joblib_backend.goals(backends)
    publish(Report(__doc__ or "", tables, goals, {}), chosen)


# -- grid search ------------------------------------------------------------------------------------------------------


def grid(rates: int, chosen: Options) -> dict[str, list[float]]:
    epochs = 1 if chosen.quick else 10
    with launch.environment() as cold:
        names = {TENFOLD: "tenfold", "GridSearchCV, scikeras": "scikeras"}
        runs: dict[str, Callable[[], float]] = {
            name: partial(searched, contestant, rates, epochs, cold) for name, contestant in names.items()
        }
        return take_turns(runs, chosen.repeats)


def searched(contestant: str, rates: int, epochs: int, cold: dict[str, str]) -> float:
    seconds, printed = launch.run(launch.command("keras_grid", contestant, rates, epochs, digits()), cold)
    say(f"{contestant}: {rates} rates in {seconds:.1f} s, {printed.strip().splitlines()[-1]}")
    return seconds


def timed(title: str, seconds: dict[str, list[float]]) -> Table:
    middle = medians(seconds)
    rows = [(n, f"{v:.1f}", spread(seconds[n]), f"{v / middle[TENFOLD]:.1f}") for n, v in middle.items()]
    return Table(title, ("contestant", "median s", "turns", "s / tenfold's s"), rows)


# -- halving ----------------------------------------------------------------------------------------------------------


def halving(chosen: Options) -> tuple[list[Table], list[Goal]]:
    trials, epochs = (8, 3) if chosen.quick else (TRIALS, EPOCHS)
    traces: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in HALVING}
    with launch.environment() as cold:
        runs = {name: partial(halved, name, trials, epochs, cold, traces[name]) for name in HALVING}
        seconds = take_turns(runs, chosen.repeats)
    level = max(min(loss for _, loss in trace) for every in traces.values() for trace in every)
    until = {name: [reached(trace, level) for trace in every] for name, every in traces.items()}
    best = {name: min(loss for trace in every for _, loss in trace) for name, every in traces.items()}
    middle, first = medians(seconds), medians(until)
    rows = [
        (name, f"{middle[name]:.1f}", spread(seconds[name]), *ratios(name, middle, first), f"{best[name]:.4f}")
        for name in HALVING
    ]
    columns = (
        "contestant",
        "median s",
        "turns",
        "s / tenfold's s",
        f"s to val_loss {level:.4f}",
        "/ tenfold's",
        "best",
    )
    goals = []
    for what, found in (("in all", middle), ("to the same val_loss", first)):
        peer = min(value for name, value in found.items() if name != TENFOLD)
        goals.append(
            at_least(f"{trials} trials by halving, {what}, against the best peer", peer / found[TENFOLD], FASTER)
        )
    return [Table(f"{trials} trials by successive halving, at most {epochs} epochs", columns, rows)], goals


def halved(name: str, trials: int, epochs: int, cold: dict[str, str], traces: list[list[tuple[float, float]]]) -> float:
    """One contestant's turn; leaves when which val_loss was seen."""
    with tempfile.TemporaryDirectory(prefix="halving-") as folder:
        words = launch.command("halving", HALVING[name], trials, epochs, digits(), folder)
        began = time.time()
        seconds, _ = launch.run(words, cold)
        lines = [line for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
        noted = sorted((at - began, loss) for at, loss in map(json.loads, lines))
    if not noted:
        raise launch.ScriptFailed(f"{name} has noted nothing")
    traces.append(noted)
    say(f"{name}: {len(noted)} epochs in {seconds:.1f} s, best {min(loss for _, loss in noted):.4f}")
    return seconds


def ratios(name: str, in_all: dict[str, float], until: dict[str, float]) -> tuple[str, str, str]:
    ours, first = in_all[TENFOLD], until[TENFOLD]
    return f"{in_all[name] / ours:.1f}", f"{until[name]:.1f}", f"{until[name] / first:.1f}"


def reached(trace: list[tuple[float, float]], level: float) -> float:
    return next(at for at, loss in trace if loss <= level)


if __name__ == "__main__":
    main()
