"""What calls within a block have done, for `tenfold.measure`: when each of their tasks ran, and in which seat."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from tenfold.journal.store import Journal
from tenfold.plan.seats import Seat
from tenfold.scaling.split import Shift, Spell


@dataclass(slots=True)
class Observed:
    """Filled while calls end."""

    shifts: list[Shift] = field(default_factory=list)
    """One for each call."""
    seconds: float = 0.0
    """How long it took to look: not the calls' fault."""


_observing: ContextVar[Observed | None] = ContextVar("tenfold_observing", default=None)


@contextlib.contextmanager
def observed() -> Iterator[Observed]:
    """Calls of this thread, until the end of the block."""
    found = Observed()
    token = _observing.set(found)
    try:
        yield found
    finally:
        _observing.reset(token)


def note(task: object, journal: Journal, began: float, seats: Sequence[Seat]) -> None:
    """A call has ended; what it found in its run was there before."""
    watching = _observing.get()
    if watching is None:
        return
    looked = time.monotonic()
    spans = [span for span in journal.spans() if span.started >= began]
    if getattr(task, "notes_spent", False):
        spells = [
            Spell(found.seat, found.started, found.seconds, getattr(found.value, "spent", {}))
            for found in journal.outcomes(ok=True)
            if found.started >= began
        ]
    else:
        spells = [Spell(span.seat, span.started, sum(span.seconds), {}) for span in spans]
    memory = sum(max(span.peak for span in spans if span.seat == seat) for seat in {span.seat for span in spans})
    watching.shifts.append(Shift(began, len(seats), tuple(spells), memory, len({seat.machine for seat in seats})))
    watching.seconds += time.monotonic() - looked
