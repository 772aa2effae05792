"""The story of a run, read from its journal for `show`: its sessions, some of its tasks, and why others failed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tenfold.cli import say
from tenfold.errors import BadCall
from tenfold.journal import records
from tenfold.journal.records import Record
from tenfold.journal.store import Journal
from tenfold.work.outcome import Failure, Outcome, Report


@dataclass(frozen=True, slots=True)
class TaskStory:
    """One task."""

    index: int
    """Its place among the items."""
    outcome: Outcome | None
    """What became of it; None where it was not run yet."""
    reports: list[Report]
    """What it told with `here().report`: all of it, or the last."""
    earlier: list[Failure]
    """Attempts that failed before the one that `outcome` tells of."""

    @property
    def status(self) -> str:
        if self.outcome is None:
            return "not run yet"
        return "done" if self.outcome.failure is None else "failed"

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"task": self.index, "status": self.status}
        if self.outcome is not None:
            names = ("item", "value", "seconds", "peak", "seat", "worker", "attempts")
            found |= {name: getattr(self.outcome, name) for name in names}
            found["failure"] = say.failure(self.outcome.failure)
        found["reports"] = [{"step": report.step, **report.values} for report in self.reports]
        found["earlier_attempts"] = [say.failure(failure) for failure in self.earlier]
        return found


@dataclass(frozen=True, slots=True)
class RunStory:
    """One run."""

    record: Record
    """What it is, and how far."""
    sessions: list[dict[str, Any]]
    """The calls that worked on it."""
    done: list[TaskStory]
    """The first tasks that returned a value."""
    failed: list[TaskStory]
    """The first tasks that failed."""

    def to_json(self) -> dict[str, Any]:
        return {
            **say.plain(self.record),
            "sessions": self.sessions,
            "values": iter([story.to_json() for story in self.done]),
            "failures": iter([story.to_json() for story in self.failed]),
        }


def of_run(journal: Journal, path: Path, most: int | None) -> RunStory:
    """The run and its first tasks, `most` of each kind (None: all), each with its last report."""
    record = records.record_of(journal, path)
    last = {report.index: [report] for report in journal.reports()}

    def story(outcome: Outcome) -> TaskStory:
        earlier = records.earlier(journal, outcome)
        return TaskStory(outcome.index, outcome, last.get(outcome.index, []), earlier)

    done = [story(outcome) for outcome in islice(journal.outcomes(ok=True), most)]
    failed = [story(outcome) for outcome in islice(journal.outcomes(ok=False), most)]
    return RunStory(record, journal.sessions(), done, failed)


def of_task(journal: Journal, path: Path, index: int) -> TaskStory:
    """Everything about one task."""
    record = records.record_of(journal, path)
    try:
        outcome = journal.outcome(index)
    except LookupError:
        outcome = None
    if outcome is None and record.tasks is not None and index >= record.tasks:
        raise BadCall(f"--task {index}: the run in {str(path)!r} has {record.tasks} tasks, counted from 0")
    earlier = records.earlier(journal, outcome) if outcome is not None else journal.attempts(index)
    return TaskStory(index, outcome, list(journal.reports(index)), earlier)
