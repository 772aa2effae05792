"""Sections about the tasks of a run, whatever they did: when and where they ran, how long, and why some failed."""

from __future__ import annotations

import array
import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy

from tenfold.data.preparing import Piece
from tenfold.journal import records
from tenfold.journal.records import Record
from tenfold.journal.store import Journal
from tenfold.plan.needs import readable
from tenfold.report import bars, timeline
from tenfold.report.occupied import Occupied, occupied
from tenfold.report.parts import Listing, Part, Section, Table, Text
from tenfold.work.outcome import Outcome, describe, shorten
from tenfold.work.times import moment, precise

SLOWEST = 10
COMPARED = 8  # tasks from which on it is worth to see how their times are spread
KINDS = 20  # of failures, with a traceback each
LOOKED_AT = 10_000  # failures that are told apart
LONG = 20_000  # characters of a traceback


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is being told of."""

    journal: Journal
    """What happened."""
    record: Record
    """What it is."""
    sessions: Sequence[dict[str, Any]]
    """The calls that worked on it."""
    occupied: Occupied
    """When and where tasks ran."""
    seconds: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]
    """How long each task took, in order."""

    @property
    def about(self) -> dict[str, Any]:
        """The last session."""
        return self.sessions[-1] if self.sessions else {}

    @property
    def workers(self) -> int:
        """How many could run at once in the end."""
        return int(self.about.get("workers", 0)) or len(self.occupied.seats)


def read(journal: Journal, path: Path | None, verb: str | None = None) -> Run:
    """Everything that is told of any run; `path` is None for a call that keeps none."""
    seconds = array.array("d")
    for span in journal.spans():
        seconds.extend(span.seconds)
    if path is not None:
        record = records.record_of(journal, path)
    else:
        count = journal.meta("count")
        record = Record(Path(), verb or "", "", int(count) if count else None, *journal.counts(), None, "finished")
    return Run(journal, record, journal.sessions(), occupied(journal), numpy.array(seconds))


# -- words ------------------------------------------------------------------------------------------------------------


def counted(run: Run) -> str:
    """What became of the tasks, in a sentence."""
    record = run.record
    of = f" of {record.tasks:,}" if record.tasks is not None else ""
    failed = f", {record.failed:,} failed" if record.failed else ""
    left = record.tasks - record.done - record.failed if record.tasks is not None else 0
    waiting = f", {left:,} not run yet" if left > 0 else ""
    running = ", and it is still running" if record.state == "running" else ""
    return f"{record.done:,}{of} tasks are done{failed}{waiting}{running}."


def worked(run: Run) -> str:
    """How long it took, in a sentence."""
    share = f"tasks ran in {100 * run.occupied.share:.0f} % of the time of all seats"
    engine = f" on the {run.about['engine']} engine" if "engine" in run.about else ""
    return f"It took {precise(run.occupied.seconds)} with {run.workers} at a time{engine}; {share}."


def figures(run: Run) -> list[tuple[str, str]]:
    """The numbers that are looked for first."""
    record = run.record
    found = [("tasks done", f"{record.done:,}")]
    found += [("failed", f"{record.failed:,}")] if record.failed else []
    found += [("wall time", precise(run.occupied.seconds)), ("time of all tasks", precise(run.occupied.busy))]
    return [*found, ("at a time", f"{run.workers:,}"), ("seats busy", f"{100 * run.occupied.share:.0f} %")]


# -- sections ---------------------------------------------------------------------------------------------------------


def when(run: Run) -> list[Section]:
    """When and where tasks ran, and how long they took; workers of one training are not compared with each other."""
    if not run.occupied.seats:
        return [Section("When", [Text("No task has ended yet."), *_sessions(run)])]
    parts: list[Part] = [timeline.chart(run.occupied)]
    if len(run.seconds) >= COMPARED and run.record.verb != "train":
        parts.append(bars.durations("How long tasks took", run.seconds))
    return [Section("When", [*parts, *_sessions(run)]), *_slowest(run)]


def _sessions(run: Run) -> list[Table]:
    rows = []
    for number, session in enumerate(run.sessions, 1):
        ended = precise(session["ended"] - session["began"]) if session["ended"] else "did not end"
        is_last = number == len(run.sessions)
        ended = "running" if is_last and run.record.state == "running" else ended
        told = [str(session.get("workers", "")), str(session.get("engine", ""))]
        rows.append([str(number), moment(session["began"]), ended, *told])
    columns = ("session", "began", "took", "at a time", "engine")
    return [Table(columns, rows, right=("began", "took", "at a time"))] if rows else []


def _slowest(run: Run) -> list[Section]:
    if len(run.seconds) < 2 or run.record.verb == "train":
        return []
    spans = run.journal.spans()
    every = ((seconds, span.first + place) for span in spans for place, seconds in enumerate(span.seconds))
    rows = [_row(run.journal.outcome(index)) for _, index in heapq.nlargest(SLOWEST, every)]
    columns = ("task", "time", "seat", "memory", "item", "value")
    used = [n for n, _ in enumerate(columns) if any(row[n] for row in rows)]
    chosen = Table(tuple(columns[n] for n in used), [[row[n] for n in used] for row in rows], ("time", "memory"))
    return [Section("The slowest tasks", [chosen])]


def _row(outcome: Outcome) -> list[str]:
    value = _value(outcome.value) if outcome.failure is None else f"failed: {outcome.failure.summary}"[:60]
    item = shorten(outcome.item, 60) if outcome.item is not None else ""
    memory = readable(outcome.peak) if outcome.peak else ""
    return [str(outcome.index), precise(outcome.seconds), str(outcome.seat), memory, item, value]


def _value(value: object) -> str:
    if isinstance(value, Piece):
        return f"samples {value.start:,} to {value.stop - 1:,}: {value.rows:,} rows"
    return shorten(value, 60)


def failures(run: Run) -> list[Section]:
    """Those that failed alike are told of once, with the traceback of the first."""
    firsts: dict[tuple[str, str], Outcome] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for outcome in islice(run.journal.outcomes(ok=False), LOOKED_AT):
        key = _alike(outcome)
        if key in firsts or len(firsts) < KINDS:
            firsts.setdefault(key, outcome)
            counts[key] += 1
    if not firsts:
        return []
    parts: list[Part] = [
        _failure(run.journal, outcome, counts[key], opened=place == 0)
        for place, (key, outcome) in enumerate(firsts.items())
    ]
    left = run.record.failed - counts.total()
    if left > 0:
        parts.append(Text(f"{left:,} more failures are not shown here; `tenfold show --all` shows them."))
    return [Section("Failures", parts)]


def _alike(outcome: Outcome) -> tuple[str, str]:
    """Failures at the same place of the code are alike, whatever their message says."""
    assert outcome.failure is not None
    return outcome.failure.kind, places(outcome.failure.traceback) or outcome.failure.summary


def places(traceback: str) -> str:
    """Where it happened, without what was said there."""
    return "\n".join(traceback.strip().splitlines()[:-1])


def _failure(journal: Journal, outcome: Outcome, count: int, *, opened: bool) -> Listing:
    assert outcome.failure is not None
    alike = f" and {count - 1:,} alike" if count > 1 else ""
    text = [str(describe(outcome))]
    for number, failure in enumerate(records.earlier(journal, outcome), 1):
        text.append(f"Earlier attempt {number}: {failure.summary}\n{failure.traceback or failure.output}")
    whole = "\n\n".join(text)
    cut = whole if len(whole) <= LONG else f"{whole[:LONG]}\n... cut here"
    return Listing(f"task {outcome.index}{alike}: {outcome.failure.summary}", cut, opened)
