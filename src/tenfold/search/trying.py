"""In a worker: one leg of a trial of a function, and what is brought back of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenfold.work.here import here
from tenfold.work.leg import Halted, Leg, Why


@dataclass(frozen=True, slots=True)
class Tried:
    """What a leg of a function came to."""

    value: Any
    """What it returned; None where it was stopped before."""
    why: Why
    """How it ended."""
    steps: int
    """Steps done, with those of earlier legs."""
    reported: list[tuple[int, dict[str, float]]]
    """Steps done, and what was reported then; of this leg."""
    last: int | None
    """The number of the last step, as it was reported."""
    repeated: bool
    """It began again from a step that was done before."""

    def __repr__(self) -> str:
        if self.why == "finished":
            return repr(self.value)
        return f"<{self.why} after {self.steps} steps: {self.reported[-1][1] if self.reported else ''}>"

    def __tenfold_row__(self) -> dict[str, Any]:
        row = self.value if isinstance(self.value, dict) else {"value": self.value}
        return row if self.why == "finished" else {"ended": self.why, **self.reported[-1][1]}


class Trying:
    """The user's function, given one leg at a time."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, leg: Leg) -> Tried:
        task = here()
        judge = task.judge
        assert judge is not None
        value: Any = None
        why = task.recall()
        if why is None:
            why = "finished"
            try:
                value = self._task(dict(leg.params))
            except Halted as halted:
                why = halted.why
            if judge.ended is not None:
                value, why = None, judge.ended
        return Tried(value, why, judge.steps, judge.reported, judge.last, judge.repeated)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"task": self._task}

    @property
    def __name__(self) -> str:
        return getattr(self._task, "__name__", type(self._task).__name__)
