"""Reads run folders for `runs`, `show` and `demo`. Never writes to one, and holds its lock for a look only.

Values and items are pickles of the user's own classes, which may not exist in this process: what cannot be opened is
told in its place, and everything around it is still shown.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tenfold.errors import RunUnusable
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal
from tenfold.work.outcome import Outcome

DEPTH = 4  # folders below the one that was asked for
LOOK_PAST = 1000  # tasks after the last that is done, where their number is not known
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


@dataclass(frozen=True, slots=True)
class Unopened:
    """Stands for a value or an item that is in the journal and cannot be opened here."""

    reason: str
    """Why."""

    def __repr__(self) -> str:
        return f"<cannot be opened here: {self.reason}>"


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
    """The journal of a run, to read. sqlite3's own errors come out as RunUnusable."""
    folder = Folder(path)
    journal = Journal(folder, read_only=True)
    try:
        yield journal
    except sqlite3.Error as error:
        raise folder.unusable(error) from error
    finally:
        journal.close()


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
    state = "running" if is_held(path) else "finished" if is_finished else "unfinished"
    return Record(path, journal.meta("verb") or "", journal.meta("function") or "", tasks, done, failed, last, state)


def is_held(path: Path) -> bool:
    """Whether a call is working on the run now."""
    import fcntl

    try:
        with open(path / "lock") as file:
            # Shared and let go of at once: two that look do not see each other as a call.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


# -- tasks ------------------------------------------------------------------------------------------------------


def done(journal: Journal) -> Iterator[Outcome]:
    """Every task that returned a value, in order, one block open at a time."""
    for first, count in journal.finished():
        try:
            yield from journal.block(first)
        except sqlite3.Error:
            raise
        except Exception as error:  # unpickling runs the user's code, which can raise anything
            for index in range(first, first + count):
                yield _unopened(index, error)


def failed(journal: Journal, tasks: int | None) -> Iterator[Outcome]:
    """Every task that failed for good, in order; `tasks` is how many the run has."""
    expected = 0
    try:
        for outcome in journal.outcomes(failed_only=True):
            expected = outcome.index + 1
            yield outcome
    except sqlite3.Error:
        raise
    except Exception:  # an item that cannot be opened: go on one by one
        for index in _gaps(journal.finished(), expected, tasks):
            found = one(journal, index)
            if found is not None and found.failure is not None:
                yield found


def _gaps(blocks: list[tuple[int, int]], start: int, end: int | None) -> Iterator[int]:
    """Indices from `start` on that are in none of the blocks; where the end is not known, some way past the last."""
    last = end if end is not None else sum(blocks[-1] if blocks else (0, 0)) + LOOK_PAST
    for first, count in [*blocks, (last, 0)]:
        yield from range(start, first)
        start = max(start, first + count)


def one(journal: Journal, index: int) -> Outcome | None:
    """The outcome of one task; None where it was not run yet."""
    try:
        block = journal.block(index)
    except sqlite3.Error:
        raise
    except Exception as error:
        if type(error) is LookupError:  # the journal's own; a KeyError comes from opening a value
            return None
        return _without_item(journal, index, error)
    return next((outcome for outcome in block if outcome.index == index), None)


def _without_item(journal: Journal, index: int, error: Exception) -> Outcome:
    attempts = journal.attempts(index)
    is_done = any(first <= index < first + count for first, count in journal.finished())
    found = _unopened(index, error)
    if is_done or not attempts:
        return found
    return replace(found, ok=False, value=None, failure=attempts[-1], attempts=len(attempts))


def _unopened(index: int, error: Exception) -> Outcome:
    stand_in = Unopened(f"{type(error).__name__}: {error}")
    return Outcome(index, True, stand_in, None, 0.0, 0.0, 0, -1, "", 1, stand_in)
