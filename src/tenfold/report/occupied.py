"""When which seat was occupied, read from a run's journal: for a timeline, and for how busy the seats were.

A run may have been continued days later. What counts is the time in which a call worked on it: its sessions are laid
one after the other, without the pauses between them.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy

from tenfold.journal import block
from tenfold.journal.block import Span
from tenfold.journal.store import Journal

BARS = 2000  # tasks that are drawn one by one; of more, stretches are
STRETCHES = 240  # of the whole time


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt at a task."""

    task: int
    """Its index."""
    seat: int
    """Where it ran."""
    start: float
    """Seconds after the beginning."""
    stop: float
    """When it ended."""
    ok: bool
    """Whether it returned a value."""


@dataclass(slots=True)
class Occupied:
    """Who sat where, and for how long."""

    seconds: float = 0.0
    """In which a call worked on the run."""
    begins: list[float] = field(default_factory=list)
    """Of each session, counted in these seconds."""
    seats: list[int] = field(default_factory=list)
    """Those that were used, in order."""
    bars: list[Bar] = field(default_factory=list)
    """Every attempt; empty where there are too many."""
    shares: dict[int, list[float]] = field(default_factory=dict)
    """By seat, where there are too many: of each stretch, the share in which it was occupied."""
    busy: float = 0.0
    """Seconds that all tasks took, attempts that failed included."""
    there: float = 0.0
    """Seconds that all seats were there for."""

    @property
    def share(self) -> float:
        """Of the time of all seats, that in which tasks ran."""
        return min(1.0, self.busy / self.there) if self.there > 0 else 0.0


class _Clock:
    """From times of the clock to seconds of work."""

    def __init__(self, sessions: list[dict[str, object]], first: float, ends: dict[int, float]) -> None:
        self._began = [float(session["began"]) for session in sessions] or [first]  # type: ignore[arg-type]
        told = [session["ended"] for session in sessions] or [None]
        lasts = [ended if ended is not None else ends.get(n, self._began[n]) for n, ended in enumerate(told)]
        self.lengths = [
            max(0.0, float(last) - began)  # type: ignore[arg-type]
            for began, last in zip(self._began, lasts, strict=True)
        ]
        self.offsets = list(itertools.accumulate(self.lengths, initial=0.0))

    def place(self, at: float) -> float:
        session = max(0, bisect_right(self._began, at) - 1)
        return self.offsets[session] + min(max(0.0, at - self._began[session]), self.lengths[session])


def occupied(journal: Journal) -> Occupied:
    """Goes through the journal twice, and keeps no more than what can be drawn."""
    sessions = journal.sessions()
    began = [float(session["began"]) for session in sessions]
    seats: Counter[int] = Counter()
    ends: dict[int, float] = {}
    first, busy = float("inf"), 0.0
    for span in _attempts(journal):
        took = sum(span.seconds)
        session = max(0, bisect_right(began, span.started) - 1)
        ends[session] = max(ends.get(session, 0.0), span.started + took)
        seats[span.seat] += len(span.seconds)
        first, busy = min(first, span.started), busy + took
    clock = _Clock(sessions, first if seats else 0.0, ends)
    workers = [int(session.get("workers", 0)) or len(seats) for session in sessions] or [len(seats)]
    found = Occupied(clock.offsets[-1], clock.offsets[:-1], sorted(seats), busy=busy)
    found.there = sum(count * length for count, length in zip(workers, clock.lengths, strict=True))
    if sum(seats.values()) <= BARS:
        found.bars = apart([bar for span in _attempts(journal) for bar in _bars(span, clock)])
    else:
        found.shares = _shares(journal, found, clock)
    return found


def _attempts(journal: Journal) -> Iterator[Span]:
    """Tasks that returned, and every attempt that failed, those of tasks that were tried again included."""
    yield from (span for span in journal.spans() if span.ok)
    yield from journal.failed_spans()


def _bars(span: Span, clock: _Clock) -> Iterator[Bar]:
    times = itertools.accumulate(span.seconds, initial=span.started)
    for place, (start, stop) in enumerate(itertools.pairwise(times)):
        yield Bar(span.first + place, span.seat, clock.place(start), clock.place(stop), span.ok)


def apart(bars: list[Bar]) -> list[Bar]:
    """In a seat, one task runs at a time; in the order of time."""
    times = block.apart([(bar.seat, bar.start, bar.stop) for bar in bars])
    found = [replace(bar, start=max(0.0, start), stop=stop) for bar, (start, stop) in zip(bars, times, strict=True)]
    return sorted(found, key=lambda bar: (bar.start, bar.stop))


def _shares(journal: Journal, found: Occupied, clock: _Clock) -> dict[int, list[float]]:
    taken = {seat: numpy.zeros(STRETCHES) for seat in found.seats}
    scale = STRETCHES / found.seconds if found.seconds > 0 else 0.0
    for span in _attempts(journal):
        start, stop = clock.place(span.started) * scale, clock.place(span.started + sum(span.seconds)) * scale
        row = taken[span.seat]
        first, last = int(start), min(STRETCHES - 1, int(stop))
        if first >= last:
            row[min(first, STRETCHES - 1)] += stop - start
        else:
            row[first] += first + 1 - start
            row[first + 1 : last] += 1.0
            row[last] += stop - last
    return {seat: numpy.minimum(1.0, row).tolist() for seat, row in taken.items()}
