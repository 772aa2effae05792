"""What a study looks for, and where it is found in what a task brings back."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import sign_of
from tenfold.search.trial import End
from tenfold.search.trying import Tried
from tenfold.work.leg import Leg, found
from tenfold.work.outcome import Outcome, Unopened, shorten


@dataclass(frozen=True, slots=True)
class Objective:
    """One or several, with a direction each."""

    names: tuple[str | None, ...]
    """As they are called in histories, reports and returned dicts; None for whatever a function returns."""
    directions: tuple[str, ...]
    """ "minimize" or "maximize"."""
    guessed: bool = field(default=False, repr=False)
    """The direction is what it is because nobody has said anything, not even a name."""

    @property
    def sign(self) -> int:
        """-1 where more of the first is better."""
        return -1 if self.directions[0] == "maximize" else 1

    def to_json(self) -> str:
        """For the journal of a study."""
        return json.dumps([self.names, self.directions])

    @classmethod
    def from_json(cls, text: str) -> Objective:
        """From there."""
        names, directions = json.loads(text)
        return cls(tuple(names), tuple(directions))

    def read(self, leg: Leg, outcome: Outcome) -> End:
        """How a leg ended."""
        error = outcome.error
        if error is not None:
            return End(outcome.index, None, None, {}, outcome.seconds, error=str(error))
        value = outcome.value
        if isinstance(value, Unopened):
            told = f"what the task brought back cannot be opened here: {value.reason}"
            return End(outcome.index, None, None, {}, outcome.seconds, error=told)
        return self._of_fit(value, outcome) if isinstance(value, FitResult) else self._of_function(value, outcome)

    def _of_fit(self, result: FitResult, outcome: Outcome) -> End:
        for name in self.names:
            if name not in result.history:
                raise BadCall(f"objective={name!r}: an epoch has {', '.join(result.history)}")
        curve = dict(enumerate(result.history[str(self.names[0])], 1))
        values = tuple(result.final[str(name)] for name in self.names)
        return End(outcome.index, result.ended, values, curve, outcome.seconds, len(curve) - 1)

    def _of_function(self, tried: Tried, outcome: Outcome) -> End:
        name = _called(tried) if self.guessed else None
        if name is not None and _by_name(name) == "maximize":
            raise BadCall(
                f"objective=None: the task tells {name!r}, of which more is better, and the study looks for the least; "
                f"say objective={name!r}, or direction="
            )
        curve = {steps: found(values, self.names[0]) for steps, values in tried.reported}
        known = {steps: value for steps, value in curve.items() if value is not None}
        if tried.why == "finished":
            values = [_returned(tried, name) for name in self.names]
        else:
            best = min(known.values(), key=lambda value: self.sign * value) if tried.why == "stopped" else None
            values = [best if best is not None else list(known.values())[-1]]
        numbers = tuple(value for value in values if value is not None)
        if len(numbers) < len(values):
            return End(outcome.index, None, None, known, outcome.seconds, error=self._missing(tried))
        return End(outcome.index, tried.why, numbers, known, outcome.seconds, tried.last, repeated=tried.repeated)

    def _missing(self, tried: Tried) -> str:
        told = ", ".join(str(name) for name in self.names if name is not None) or "a number"
        reported = ", ".join(tried.reported[-1][1]) if tried.reported else "nothing"
        return (
            f"expected {told} as what the task returns or reports; "
            f"it returned {shorten(tried.value, 80)} and reported {reported}. Say objective='NAME'"
        )


def _called(tried: Tried) -> str | None:
    """The name of what counts where none was given; a number that was returned has none."""
    if tried.why == "finished" and tried.value is not None:
        return str(next(iter(tried.value))) if isinstance(tried.value, dict) and len(tried.value) == 1 else None
    return next(iter(tried.reported[-1][1]), None) if tried.reported else None


def _returned(tried: Tried, name: str | None) -> float | None:
    """From the value of the task, or from its last report that has it."""
    value = tried.value
    if isinstance(value, dict):
        value = value.get(name) if name is not None else (next(iter(value.values())) if len(value) == 1 else None)
    if isinstance(value, numpy.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, Real) or hasattr(value, "__float__"):
        with contextlib.suppress(TypeError, ValueError, OverflowError):  # an array of several numbers
            return float(value)
    every = [value for _, values in tried.reported if (value := found(values, name)) is not None]
    return every[-1] if every else None


def objective(names: Any, directions: Any, default: str | None) -> tuple[Objective, list[str]]:
    """From what the caller says; and what is wrong with it, in words."""
    wanted = tuple(names) if isinstance(names, list | tuple) and names else (names or default,)
    faults = [f"objective={n!r}: expected a name" for n in wanted if not (n is None or (isinstance(n, str) and n))]
    twice = sorted({n for n in wanted if isinstance(n, str) and wanted.count(n) > 1})
    faults += [f"objective={names!r}: {name!r} stands there twice" for name in twice]
    told = tuple(directions) if isinstance(directions, list | tuple) else (directions,) * len(wanted)
    chosen = tuple(_by_name(name) if one is None else one for name, one in zip(wanted, told, strict=False))
    faults += [
        f'direction={one!r}: expected "minimize" or "maximize"' for one in chosen if one not in ("minimize", "maximize")
    ]
    if len(told) != len(wanted):
        faults.append(f"direction={directions!r}: there are {len(wanted)} objectives and {len(told)} directions")
    return Objective(wanted, chosen, guessed=wanted == (None,) and directions is None), faults


def _by_name(name: Any) -> str:
    """More is better of what is called accuracy, and the like."""
    return "maximize" if isinstance(name, str) and sign_of(name) < 0 else "minimize"
