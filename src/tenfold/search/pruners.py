"""Which trials go on. A pruner decides between legs, by what trials have reached, or gives a leg its bounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tenfold.work.leg import Bounds

Curve = Mapping[int, float]
"""Steps done -> the objective then, less being better."""


class Pruner(Protocol):
    """The decisions of one study. Values are such that less is better; a NaN is the worst."""

    def stop(self, trial: int, steps: int) -> int | None:
        """Where a trial that has done so many steps pauses next; None to let it end."""

    def bounds(self) -> tuple[Mapping[int, float], int | None, float]:
        """For what a leg that begins now stops by itself: limits, patience, and what counts as an improvement."""

    def reached(self, trial: int, steps: int, value: float) -> None:
        """A trial has paused."""

    def ended(self, trial: int, curve: Curve) -> None:
        """A trial has come to its end."""

    def promoted(self, *, closing: bool) -> int | None:
        """A paused trial that has earned to go on. `closing`: no new ones come, and nothing is under way."""


class Never:
    """All trials come to their end."""

    def stop(self, trial: int, steps: int) -> int | None:
        return None

    def bounds(self) -> tuple[Mapping[int, float], int | None, float]:
        return {}, None, 0.0

    def reached(self, trial: int, steps: int, value: float) -> None:
        """Nobody pauses."""

    def ended(self, trial: int, curve: Curve) -> None:
        """Nothing to learn."""

    def promoted(self, *, closing: bool) -> int | None:
        return None


# -- rungs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asha:
    """Asynchronous successive halving: of those that reach a rung, the best 1/`factor` go on to the next."""

    least: int = 1
    """Steps that every trial gets."""
    factor: int = 3
    """Between the steps of one rung and the next, and of those that stay to those that go on."""

    def faults(self) -> list[str]:
        return _whole("Asha", least=(self.least, 1), factor=(self.factor, 2))

    def pruner(self, most: int | None) -> Ladders:
        assert most is not None
        return Ladders([_Ladder(_rungs(self.least, self.factor, most), self.factor)], [1])

    needs_steps = True


@dataclass(frozen=True, slots=True)
class Hyperband:
    """Several ladders of successive halving, which begin with more and more steps: for losses that deceive early."""

    factor: int = 3
    """As for Asha."""
    least: int = 1
    """Steps that trials of the first ladder get at least."""

    def faults(self) -> list[str]:
        return _whole("Hyperband", least=(self.least, 1), factor=(self.factor, 2))

    def pruner(self, most: int | None) -> Ladders:
        assert most is not None
        first = [*_rungs(self.least, self.factor, most), most]
        ladders = [_Ladder(_rungs(begin, self.factor, most), self.factor) for begin in first]
        # Trials of a ladder, so that each ladder takes about as many steps in all.
        shares = [math.ceil(len(first) / (len(first) - place) * (most / begin)) for place, begin in enumerate(first)]
        return Ladders(ladders, shares)

    needs_steps = True


def _rungs(least: int, factor: int, most: int) -> list[int]:
    """Steps of the rungs below the end: 1, 3 of 10."""
    found = []
    while least * factor <= most:
        found.append(least)
        least *= factor
    return found


class _Ladder:
    """The rungs of one bracket."""

    def __init__(self, rungs: list[int], factor: int) -> None:
        self.rungs = rungs
        self._factor = factor
        self._held: dict[int, dict[int, float]] = {rung: {} for rung in rungs}
        self._gone: dict[int, set[int]] = {rung: set() for rung in rungs}
        self.finished = 0

    def stop(self, steps: int) -> int | None:
        return next((rung for rung in self.rungs if rung > steps), None)

    def reached(self, trial: int, steps: int, value: float) -> None:
        self._held[steps][trial] = math.inf if math.isnan(value) else value
        for rung in self.rungs:
            if rung < steps:  # in a study that is repeated, nobody was asked whether it may go on
                self._gone[rung].add(trial)

    def ended(self, trial: int) -> None:
        self.finished += 1
        for gone in self._gone.values():
            gone.add(trial)

    def promoted(self, *, closing: bool) -> int | None:
        for rung in reversed(self.rungs):
            ranked = sorted(self._held[rung], key=lambda trial: (self._held[rung][trial], trial))
            best = ranked[: len(ranked) // self._factor]
            waiting = [trial for trial in best if trial not in self._gone[rung]]
            if closing and not self.finished and not waiting:
                # Too few for a third of them to be one, or those that went on have failed: somebody has to arrive.
                waiting = [trial for trial in ranked if trial not in self._gone[rung]]
            if waiting:
                self._gone[rung].add(waiting[0])
                return waiting[0]
        return None


class Ladders:
    """A `Pruner` of one ladder or several; each trial climbs one of them."""

    def __init__(self, ladders: list[_Ladder], shares: list[int]) -> None:
        self._ladders = ladders
        self._turns = _turns(shares)

    def _ladder(self, trial: int) -> _Ladder:
        return self._ladders[self._turns[trial % len(self._turns)]]

    def stop(self, trial: int, steps: int) -> int | None:
        return self._ladder(trial).stop(steps)

    def bounds(self) -> tuple[Mapping[int, float], int | None, float]:
        return {}, None, 0.0

    def reached(self, trial: int, steps: int, value: float) -> None:
        self._ladder(trial).reached(trial, steps, value)

    def ended(self, trial: int, curve: Curve) -> None:
        self._ladder(trial).ended(trial)

    def promoted(self, *, closing: bool) -> int | None:
        for ladder in self._ladders:
            found = ladder.promoted(closing=closing)
            if found is not None:
                return found
        return None


def _turns(shares: list[int]) -> list[int]:
    """Numbers of ladders, each as often as its share, well mixed."""
    places = [((turn + 0.5) / share, number) for number, share in enumerate(shares) for turn in range(share)]
    return [number for _, number in sorted(places)]


# -- bounds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Median:
    """Stop a trial whose best so far is worse than the median of the finished ones at the same step."""

    startup: int = 5
    """Trials that must have ended before any is stopped."""
    warmup: int = 0
    """Steps of each trial that do not count."""

    def faults(self) -> list[str]:
        return _whole("Median", startup=(self.startup, 1), warmup=(self.warmup, 0))

    def pruner(self, most: int | None) -> _Medians:
        return _Medians(self.startup, self.warmup)

    needs_steps = False


class _Medians(Never):
    def __init__(self, startup: int, warmup: int) -> None:
        self._startup = startup
        self._warmup = warmup
        self._curves: list[Curve] = []

    def ended(self, trial: int, curve: Curve) -> None:
        if curve:
            self._curves.append({step: math.inf if math.isnan(value) else value for step, value in curve.items()})

    def bounds(self) -> tuple[Mapping[int, float], int | None, float]:
        if len(self._curves) < self._startup:
            return {}, None, 0.0
        steps = sorted({step for curve in self._curves for step in curve if step > self._warmup})
        at = {step: [curve[step] for curve in self._curves if step in curve] for step in steps}
        return {step: statistics.median(values) for step, values in at.items()}, None, 0.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Stop a trial that has not improved for so many steps. What it had reached counts."""

    steps: int = 3
    """Without improvement."""
    min_delta: float = 0.0
    """What counts as an improvement."""

    def faults(self) -> list[str]:
        found = _whole("Patience", steps=(self.steps, 1))
        if isinstance(self.min_delta, bool) or not isinstance(self.min_delta, int | float) or not self.min_delta >= 0:
            found.append(f"Patience(min_delta={self.min_delta!r}): expected a number, 0 or above")
        return found

    def pruner(self, most: int | None) -> _Patient:
        return _Patient(self.steps, self.min_delta)

    needs_steps = False


class _Patient(Never):
    def __init__(self, steps: int, min_delta: float) -> None:
        self._steps = steps
        self._min_delta = min_delta

    def bounds(self) -> tuple[Mapping[int, float], int | None, float]:
        return {}, self._steps, self._min_delta


NAMES: dict[str, Any] = {"asha": Asha, "hyperband": Hyperband, "median": Median, "patience": Patience}


def chosen(wanted: Any) -> Any:
    """The settings that a name stands for."""
    return NAMES[wanted]() if isinstance(wanted, str) and wanted in NAMES else wanted


def check(wanted: Any, steps: Any = None) -> list[str]:
    """What is wrong with pruner=, in words; `steps`: of a trial in all, where they are known."""
    if wanted is None:
        return []
    if isinstance(wanted, Asha | Hyperband | Median | Patience):
        found = wanted.faults()
        if isinstance(wanted, Median | Patience) or found or not isinstance(steps, int):
            return found
        told = f"pruner={wanted!r}: of trials of {steps} steps, none would be pruned; expected some more"
        return [] if _rungs(wanted.least, wanted.factor, steps) else [told]
    return [f"pruner={wanted!r}: expected one of {', '.join(map(repr, NAMES))}, or such as tenfold.Asha(factor=4)"]


def bounds(pruner: Pruner, sign: int) -> Bounds | None:
    limits, patience, min_delta = pruner.bounds()
    return Bounds(sign, limits, patience, min_delta) if limits or patience is not None else None


def _whole(name: str, **values: tuple[Any, int]) -> list[str]:
    return [
        f"{name}({key}={value!r}): expected a whole number, {least} or above"
        for key, (value, least) in values.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < least
    ]
