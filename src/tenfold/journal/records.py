"""Reads run folders for `runs`, `show` and reports. Never writes to one, and holds its lock for a look only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tenfold.errors import RunUnusable
from tenfold.journal import keeping
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal
from tenfold.work.outcome import Failure, Outcome

UNDER_WAY = ".preparing-*/parts"
NEARBY = 8  # runs that are named where there is none
DEPTH = 4  # folders below the one that was asked for
SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})  # hidden ones, such as .venv, anyway


@dataclass(frozen=True, slots=True)
class Record:
    """What a run folder says about itself."""

    path: Path
    """The folder."""
    verb: str
    """What was called: map."""
    function: str
    """The name of the function."""
    tasks: int | None
    """How many there are; None where that was not known before the items ended."""
    done: int
    """Tasks that returned a value."""
    failed: int
    """Tasks that failed for good."""
    last_used: float | None
    """When its last session ended, or began where it did not end; seconds since the epoch."""
    state: str
    """running, finished, unfinished or unreadable."""
    trouble: str = ""
    """Why it is unreadable."""


def find(root: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The run folders at and below `root`, in order of their names. A run holds no other run."""
    if is_run(root):
        yield root
        return
    if depth < 0:
        return
    try:
        with os.scandir(root) as entries:
            inner = sorted(entry.name for entry in entries if _is_searched(entry))
    except OSError:  # not ours to read
        return
    for name in inner:
        yield from find(root / name, depth - 1)


def _is_searched(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Journal]:
    """The journal of a run, to read."""
    with contextlib.closing(Journal(Folder(path), read_only=True)) as journal:
        yield journal


def read(path: Path) -> Record:
    """The record of one run folder; a broken one gets a record that says so."""
    try:
        with opened(path) as journal:
            return record_of(journal, path)
    except RunUnusable as error:
        return Record(path, "", "", None, 0, 0, None, "unreadable", str(error))


def record_of(journal: Journal, path: Path) -> Record:
    count = journal.meta("count")
    done, failed = journal.counts()
    tasks = int(count) if count else None
    sessions = journal.sessions()
    last = max((session["ended"] or session["began"] for session in sessions), default=None)
    # "count" is also written ahead of the work, and a session that was interrupted has no end.
    is_finished = tasks is not None and done + failed >= tasks
    state = "running" if Folder(path).in_use() else "finished" if is_finished else "unfinished"
    return Record(path, journal.meta("verb") or "", journal.meta("function") or "", tasks, done, failed, last, state)


def place(path: Path) -> Path:
    """The folder of the run that a path stands for: a prepared set has that of its making, or of the call at work."""
    work = sorted(path.glob(UNDER_WAY), key=lambda found: found.stat().st_mtime) if path.is_dir() else []
    return next((found for found in (path, path / keeping.NAME, *reversed(work)) if is_run(found)), path)


def earlier(journal: Journal, outcome: Outcome) -> list[Failure]:
    """Attempts at a task that failed before the one that `outcome` tells of."""
    if outcome.attempts <= 1 and outcome.failure is None:
        return []
    attempts = journal.attempts(outcome.index)
    return attempts if outcome.failure is None else attempts[:-1]


def check(path: Path) -> None:
    """Refuse a folder without a run, with the runs that are near it."""
    if is_run(path):
        return
    start = path if path.is_dir() else next((parent for parent in path.parents if parent.is_dir()), Path())
    near = [str(found) for found in islice(find(start), NEARBY + 1)]
    more = ", ..." if len(near) > NEARBY else ""
    told = f"runs nearby: {', '.join(near[:NEARBY])}{more}" if near else f"there is none in or below {str(start)!r}"
    raise RunUnusable(f"{str(path)!r} {'holds no run' if path.exists() else 'does not exist'}; {told}")
