"""One trial of a study, as people see it, and what becomes of its legs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.result import FitResult
from tenfold.search.trying import Tried
from tenfold.work.leg import Why

State = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True)
class End:
    """How one leg ended, of one fold."""

    index: int
    """Its place in the journal."""
    why: Why | None
    """None where it failed."""
    values: tuple[float, ...] | None
    """The objectives; None where it did not get as far as one."""
    curve: dict[int, float]
    """Steps done -> the first objective then."""
    seconds: float = 0.0
    """How long it took."""
    last: int | None = None
    """The number of the last step, as it was reported."""
    error: str | None = None
    """Why it failed, with the traceback."""
    repeated: bool = False
    """It began again from its first step, where it was to go on."""

    def at(self, step: int) -> float | None:
        """The first objective after a step; where it has ended before, what it had come to."""
        ended = self.why == "finished" and self.values is not None and step > max(self.curve, default=0)
        return self.values[0] if ended and self.values is not None else self.curve.get(step)


@dataclass(slots=True)
class Trial:
    """What was tried, and how it went."""

    number: int
    """Counted from 0, in the order in which they were suggested."""
    params: dict[str, Any]
    """What the task was called with."""
    state: State = "running"
    """ "complete", "pruned" (not worth going on), or "failed"."""
    values: tuple[float, ...] | None = None
    """The objectives: means over the folds."""
    spread: float | None = None
    """Standard deviation of the objective over the folds."""
    curve: dict[int, float] = field(default_factory=dict, repr=False)
    """Steps done -> the objective then."""
    steps: int = 0
    """Steps done."""
    seconds: float = 0.0
    """How long its tasks took."""
    error: str | None = field(default=None, repr=False)
    """Of a failed one: why, with the worker's traceback."""
    repeated: bool = field(default=False, repr=False)
    """It had no checkpoint to go on from, and has done steps again that it had done before."""
    lineage: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """In a population: what it took over from which trial, and when."""
    places: list[int] = field(default_factory=list, repr=False)
    """Of its last legs in the journal, one a fold."""
    _results: Sequence[Any] = field(default=(), repr=False)
    _refit: Callable[[Trial], FitResult] | None = field(default=None, repr=False)
    _refitted: FitResult | None = field(default=None, repr=False)

    @property
    def value(self) -> float:
        """The objective; NaN where there is none."""
        return self.values[0] if self.values else math.nan

    @property
    def result(self) -> Any:
        """What its task brought back: a `FitResult`, or what the function returned; a list of them with cv=."""
        found = [self._opened(place) for place in self.places]
        return found if len(found) > 1 else found[0]

    def _opened(self, place: int) -> Any:
        value = self._results[place]
        return value.value if isinstance(value, Tried) else value

    @property
    def model(self) -> Any:
        """Of a `Fit`: the trained model. With cv=, one that is trained on all rows when it is first asked for."""
        if self._refit is not None:
            self._refitted = self._refitted or self._refit(self)
            return self._refitted.model()
        found = self.result
        if not isinstance(found, FitResult):
            raise BadCall("model: the task is a function; .result is what it returned")
        return found.model()

    def bind(self, results: Sequence[Any], refit: Callable[[Trial], FitResult] | None) -> None:
        """Where its results are."""
        self._results, self._refit = results, refit

    def become(self, ends: Sequence[End]) -> None:
        """What it is, now that its folds have ended so; one that is paused counts as pruned until it goes on."""
        reasons = {end.why for end in ends}
        if None in reasons or self.values is None:
            self.state, self.values = "failed", None
        else:
            self.state = "pruned" if reasons & {"pruned", "paused"} else "complete"

    def take(self, ends: Sequence[End], seconds: float) -> None:
        """What has become of its folds by now; `seconds` are those of the legs that are new."""
        self.places = [end.index for end in ends]
        self.seconds += seconds
        self.error = next((end.error for end in ends if end.error is not None), None)
        self.repeated |= any(end.repeated for end in ends)
        self.curve |= _mean(ends)
        self.steps = max(self.curve, default=self.steps)
        every = [end.values for end in ends if end.values is not None]
        if self.error is None and len(every) == len(ends):
            self.values = tuple(_average(column) for column in zip(*every, strict=True))
            self.spread = _spread([values[0] for values in every]) if len(every) > 1 else None


def _mean(ends: Sequence[End]) -> dict[int, float]:
    """Of the folds' curves; one that has ended before the others stays where it was."""
    steps = sorted({step for end in ends for step in end.curve})
    known = {step: [value for end in ends if (value := end.at(step)) is not None] for step in steps}
    return {step: _average(values) for step, values in known.items() if len(values) == len(ends)}


def _average(values: Sequence[float]) -> float:
    with numpy.errstate(all="ignore"):  # a model that has diverged has an infinite loss, or none
        return float(numpy.mean(values))


def _spread(values: Sequence[float]) -> float:
    with numpy.errstate(all="ignore"):
        return float(numpy.std(values))
