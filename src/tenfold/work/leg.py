"""A leg: the part of a trial that is run in one go, and for what it stops. Written by `search`, read in workers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Why = Literal["finished", "paused", "pruned", "stopped"]
"""How a leg ends: at its own end, where it was to pause, below the others, or for want of improvement."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """For what a trial is stopped by its own worker, without asking anybody."""

    sign: int
    """-1 where more is better."""
    limits: Mapping[int, float] = field(default_factory=dict)
    """Steps done -> what the best so far must not be above, less being better; else it is pruned."""
    patience: int | None = None
    """Steps without improvement after which it is stopped."""
    min_delta: float = 0.0
    """What counts as an improvement."""


@dataclass(frozen=True, slots=True)
class Leg:
    """An item of a study."""

    trial: int
    """Whose it is: all legs of a trial have its seed and its folder."""
    params: dict[str, Any]
    """What the task is called with."""
    objective: str | None
    """Its name among what is reported: a report without it is no step. None for whatever comes first."""
    start: int = 0
    """Steps that were done before."""
    stop: int | None = None
    """Steps after which it pauses; None for the end."""
    bounds: Bounds | None = None
    """For what else it stops."""
    fold: int | None = None
    """Which part of the rows is held out."""
    last: int | None = None
    """The number of the last step that was reported before."""
    numbered: bool = False
    """Steps have the numbers 0, 1, 2 and so on, as epochs do; else each report is one step."""
    after: int | None = None
    """The place of the leg that it goes on from."""
    state: Any = field(default=None, compare=False, repr=False)
    """What a model goes on from: found in the journal when it is sent, and not kept with the item."""
    alone: str | None = field(default=None, compare=False)
    """Why it cannot be run with others, where that was found out."""

    def __repr__(self) -> str:
        fold = "" if self.fold is None else f", fold {self.fold}"
        steps = "" if self.stop is None and not self.start else f", from step {self.start} to {self.stop or 'the end'}"
        return f"<trial {self.trial}{fold}{steps}: {self.params}>"


class Halted(BaseException):
    """Raised in a task where it is to stop; not an Exception, so that a task's own `except Exception` lets it go."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class Judge:
    """Told after each step of a leg how it went; says when to stop."""

    def __init__(self, leg: Leg) -> None:
        self._leg = leg
        self.steps = leg.start
        """Steps done."""
        self.last = leg.last
        """The number of the last one, as it was reported."""
        self.repeated = False
        """It has begun again from a step that was done before."""
        self.reported: list[tuple[int, dict[str, float]]] = []
        """Steps done, and what was reported then."""
        self.ended: Why | None = None
        """It was told to end; where that was in a thread of its own, or was caught, it may not have."""
        self._best = math.inf
        self._waited = 0

    @property
    def numbered(self) -> bool:
        """Steps are known by their numbers, and need not be counted."""
        return self._leg.numbered

    def recall(self, reports: Iterable[tuple[int, Mapping[str, float]]]) -> Why | None:
        """What an earlier attempt has reported, step by step; why the leg ended there, if it did."""
        every = ((step, values) for step, values in reports if not self.numbered or step >= self._leg.start)
        why = next((why for step, values in every if (why := self.look(step, values)) is not None), None)
        self.repeated = False
        return why

    def look(self, step: int, values: Mapping[str, float]) -> Why | None:
        """After a step: why the leg ends here; None to go on."""
        value = found(values, self._leg.objective)
        if value is None:
            return None
        if self.last is not None and step <= self.last:
            self.repeated = self.repeated or (step < self.last and self.steps == self._leg.start > 0)
            return None  # done before, or told of twice
        self.steps = step + 1 if self._leg.numbered else self.steps + 1
        self.last = step
        self.reported.append((self.steps, dict(values)))
        return self._judged(value) or self._paused()

    def _paused(self) -> Why | None:
        return "paused" if self._leg.stop is not None and self.steps >= self._leg.stop else None

    def _judged(self, objective: float) -> Why | None:
        bounds = self._leg.bounds
        if bounds is None:
            return None
        value = bounds.sign * objective
        self._waited += 1
        if value < self._best - bounds.min_delta:
            self._best, self._waited = value, 0
        limit = bounds.limits.get(self.steps)
        if limit is not None and not min(self._best, value) <= limit:
            return "pruned"
        return "stopped" if bounds.patience is not None and self._waited >= bounds.patience else None


def found(values: Mapping[str, float], objective: str | None) -> float | None:
    """The objective among what was reported; the first of it where none was named."""
    return values.get(objective) if objective is not None else next(iter(values.values()), None)
