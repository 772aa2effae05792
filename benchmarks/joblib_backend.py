"""How long does a grid search of scikit-learn take on tenfold's joblib backend, and how long on loky?

A support vector machine and a random forest on the digits data, 18 fits and one more on all data, 2 jobs. Cold is a
whole script from the start of its interpreter to its exit, with one search in it. Warm are the second and later
searches in one process, in which both backends take turns. All must find the same scores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import launch
from contest import TENFOLD, Goal, Options, Report, Table, at_least, medians, options, publish, say, spread, take_turns

REPEATS = 5
LOKY = "loky"
MODELS = {"svc": "SVC", "forest": "random forest"}
COLD, WARM = "cold", "warm"
GOALS = {COLD: 1.5, WARM: 1.0}
SEARCHES = 4  # warm ones of each backend for each cold script


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    found = {model: measure(model, chosen) for model in MODELS}
    tables = [table(how, {model: turns[how] for model, turns in found.items()}) for how in (COLD, WARM)]
    publish(Report(__doc__ or "", tables, goals(found), found), chosen)


def measure(model: str, chosen: Options) -> dict[str, dict[str, list[float]]]:
    """Seconds of each turn of both backends, cold and warm."""
    say(MODELS[model])
    check = Agreement()
    with launch.environment() as variables:
        runs = {name: partial(_cold, name, model, variables, check) for name in (TENFOLD, LOKY)}
        cold = take_turns(runs, chosen.repeats)
        say("warm")
        _, printed = launch.run(_command(f"{TENFOLD},{LOKY}", model, 1 + SEARCHES * chosen.repeats), variables)
    warm = check(printed)["seconds"]
    return {COLD: cold, WARM: {name: seconds[1:] for name, seconds in warm.items()}}


def _cold(name: str, model: str, variables: dict[str, str], check: Agreement) -> float:
    seconds, printed = launch.run(_command(name, model, 1), variables)
    check(printed)
    return seconds


def _command(backends: str, model: str, fits: int) -> list[str]:
    return launch.command("grid_search", backends, model, fits)


class Agreement:
    """Refuses a backend that does not find the scores that the first one found."""

    def __init__(self) -> None:
        self._first: list[float] = []

    def __call__(self, printed: str) -> Any:
        found = json.loads(printed)
        for scores in found["scores"].values():
            self._first = self._first or scores
            if scores != self._first:
                raise launch.ScriptFailed(f"the searches disagree: {scores} and {self._first}")
        return found


def table(how: str, found: dict[str, dict[str, list[float]]]) -> Table:
    rows = [row for model, turns in found.items() for row in _rows(MODELS[model], turns)]
    head = ("model", "contestant", "median s", "turns", "s / tenfold's s")
    count = len(next(iter(found.values()))[TENFOLD])
    return Table(f"{how} (turns: {count})", head, rows, words=2)


def _rows(model: str, turns: dict[str, list[float]]) -> Iterator[tuple[str, ...]]:
    middle = medians(turns)
    for name, seconds in middle.items():
        yield model, name, f"{seconds:.2f}", spread(turns[name]), f"{seconds / middle[TENFOLD]:.2f}"


def goals(found: dict[str, dict[str, dict[str, list[float]]]]) -> list[Goal]:
    texts = {COLD: "a cold script is faster than with loky", WARM: "a warm search is no slower than with loky"}
    return [
        at_least(f"{MODELS[model]}: {texts[how]}", _ratio(turns[how]), least)
        for model, turns in found.items()
        for how, least in GOALS.items()
    ]


def _ratio(turns: dict[str, list[float]]) -> float:
    middle = medians(turns)
    return middle[LOKY] / middle[TENFOLD]


if __name__ == "__main__":
    main()
