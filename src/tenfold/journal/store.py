"""The journal: a SQLite file in a run's folder, or the same in SQLite's own temporary storage where there is no run.

Outcomes are kept in blocks of consecutive tasks, because a million tiny tasks come in a few thousand batches. A row
holds the pickles as they came from the worker; they are opened when somebody reads them.

    meta       what the run is: format, call, fingerprint
    outcomes   one row per block: values or a failure, how long each took
    attempts   every failed attempt, also those that were tried again
    reports    every here().report
    sessions   every call that worked on this run
"""

from __future__ import annotations

import array
import contextlib
import itertools
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tenfold.errors import RunUnusable
from tenfold.journal import digest
from tenfold.journal.block import Block as Block
from tenfold.journal.block import Span
from tenfold.journal.folder import Folder, write_whole
from tenfold.journal.kept import Keeping, Memory
from tenfold.work import parcel
from tenfold.work.outcome import Failure, Outcome, Report, Unopened

FORMAT = 1
KEPT_BESIDE = 16 << 10  # bytes of a value, from which on it stays out of the database where there is no run
ITEMS_KEPT = 64 << 10  # bytes of pickled items that a block keeps, so that a table can show them

PICKLES, PARCEL, FILE, BESIDE = range(4)  # how a block's values are kept

TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outcomes (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, ok INTEGER NOT NULL,
    kind INTEGER NOT NULL, value BLOB, failure TEXT,
    seconds BLOB NOT NULL, started REAL NOT NULL, peak INTEGER NOT NULL,
    seat INTEGER NOT NULL, worker TEXT NOT NULL, attempts INTEGER NOT NULL,
    items BLOB, digests BLOB);
CREATE INDEX IF NOT EXISTS failed ON outcomes (first) WHERE ok = 0;
CREATE TABLE IF NOT EXISTS attempts (
    task INTEGER NOT NULL, attempt INTEGER NOT NULL, failure TEXT NOT NULL,
    seconds REAL NOT NULL, ended REAL NOT NULL, seat INTEGER NOT NULL, worker TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reports (
    task INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL, at REAL NOT NULL, vals TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS reports_of ON reports (task);
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY, began REAL NOT NULL, ended REAL, pid INTEGER NOT NULL, about TEXT NOT NULL);
"""
_COLUMNS = "first, count, ok, kind, value, failure, seconds, started, peak, seat, worker, attempts, items"


class Journal:
    """One run's journal. Safe to read from any thread; written by one."""

    def __init__(self, folder: Folder | None, *, read_only: bool = False, beside: Keeping | None = None) -> None:
        """`beside`: where large values are kept without a folder; in memory if it is not given."""
        self.folder = folder
        self._lock = threading.RLock()
        self._beside = beside or Memory()
        self._session: int | None = None
        self._committed = time.monotonic()
        self._dirty = False
        if read_only and (folder is None or not folder.journal.is_file()):
            raise RunUnusable(
                f"{folder and str(folder.path)!r} holds no run: there is no {folder and folder.journal.name}"
            )
        with self._trouble():
            self._db = sqlite3.connect(str(folder.journal) if folder else "", check_same_thread=False)
            self._set_up(read_only)

    def _set_up(self, read_only: bool) -> None:
        if self.folder is None:
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("PRAGMA synchronous = OFF")
        elif not read_only:
            os.chmod(self.folder.journal, 0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # an outcome survives a power cut, not only a kill
        tables = self._read("SELECT name FROM sqlite_master WHERE name = 'meta'")
        found = int(self.meta("format") or 0) if tables else 0
        if found > FORMAT:
            raise RunUnusable(f"{self._place} was written by a newer tenfold (format {found}); this one reads {FORMAT}")
        if read_only and not tables:
            raise RunUnusable(f"{self._place} cannot be used: its journal is empty")
        if not read_only:
            # One transaction: each of its own would wait for the disk.
            format_row = f"INSERT OR IGNORE INTO meta VALUES ('format', '{FORMAT}');"
            self._db.executescript(f"BEGIN IMMEDIATE;{TABLES}{format_row}COMMIT;")

    @property
    def _place(self) -> str:
        return f"run={str(self.folder.path)!r}" if self.folder else "a call without run="

    @contextlib.contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, RunUnusable):
                raise
            raise RunUnusable(
                f"{self._place}: its journal cannot be used: {error}. What was committed is kept; "
                "when the cause is gone, the same call continues"
            ) from error

    # -- what the run is ----------------------------------------------------------------------------------------

    def meta(self, key: str) -> str | None:
        rows = self._read("SELECT value FROM meta WHERE key = ?", key)
        return rows[0][0] if rows else None

    def set_meta(self, **values: str) -> None:
        with self._lock, self._trouble():
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
            self._db.commit()

    def begin_session(self, about: dict[str, Any]) -> None:
        with self._lock, self._trouble():
            row = (time.time(), os.getpid(), json.dumps(about))
            self._session = self._db.execute("INSERT INTO sessions (began, pid, about) VALUES (?, ?, ?)", row).lastrowid
            self._db.commit()

    def end_session(self) -> None:
        with self._lock, self._trouble():
            self._db.execute("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), self._session))
            self._db.commit()

    def sessions(self) -> list[dict[str, Any]]:
        rows = self._read("SELECT began, ended, pid, about FROM sessions ORDER BY id")
        return [{"began": began, "ended": ended, "pid": pid, **json.loads(about)} for began, ended, pid, about in rows]

    # -- writing ------------------------------------------------------------------------------------------------

    def add_values(self, block: Block, bodies: Sequence[bytes]) -> None:
        """Tasks that returned small values, as their pickles."""
        if self.folder is None and sum(map(len, bodies)) > KEPT_BESIDE * len(bodies):
            # Nobody will read them after us: a copy into temporary storage would be for nothing.
            with self._trouble():
                self._beside.add_values(block.first, bodies)
            self._add(block, ok=True, kind=BESIDE)
        else:
            self._add(block, ok=True, kind=PICKLES, value=b"".join(bodies))

    def add_large(self, block: Block, memory: parcel.Buffer) -> None:
        """A task that returned one large value; it is kept in a file of its own, or where it is."""
        if self.folder is None:
            with self._trouble():
                self._beside.add_large(block.first, memory)
            self._add(block, ok=True, kind=BESIDE)
        elif len(memory) <= 1 << 16:
            self._add(block, ok=True, kind=PARCEL, value=bytes(memory))
        else:
            with self._trouble():
                write_whole(self._file(block.first), memory)
            self._add(block, ok=True, kind=FILE)

    def replace(self, first: int, values: Sequence[Any]) -> None:
        """Keep other values of a block; what else is known of its tasks stays."""
        kind = self._row(first)["kind"]
        if kind == FILE:
            with self._trouble():
                write_whole(self._file(first), parcel.pack(values[0]).to_bytes())
            return
        bodies = [parcel.pack(value, beside=sys.maxsize).body for value in values]
        with self._lock, self._trouble():
            if kind == BESIDE:
                self._beside.add_values(first, bodies)
            else:
                row = (PICKLES, b"".join(bodies), first)
                self._db.execute("UPDATE outcomes SET kind = ?, value = ? WHERE first = ?", row)
                self._dirty = True

    def add_failure(self, block: Block, failure: Failure) -> None:
        """A task that failed for good."""
        self._add(block, ok=False, kind=PICKLES, failure=failure.to_json())

    def add_attempt(self, block: Block, failure: Failure) -> None:
        """An attempt that failed; the task may be tried again."""
        row = (block.first, block.attempts, failure.to_json(), block.seconds[0], time.time(), block.seat)
        with self._lock, self._trouble():
            self._db.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, block.worker))
            self._dirty = True

    def add_reports(self, reports: Sequence[Report]) -> None:
        rows = [(r.index, r.attempt, r.step, r.at, json.dumps(r.values)) for r in reports]
        with self._lock, self._trouble():
            self._db.executemany("INSERT INTO reports VALUES (?, ?, ?, ?, ?)", rows)
            self._dirty = True

    def _add(
        self, block: Block, *, ok: bool, kind: int, value: bytes | None = None, failure: str | None = None
    ) -> None:
        took = array.array("d", block.seconds)
        row = (
            *(block.first, len(took), ok, kind, value, failure, took.tobytes(), time.time() - sum(took), block.peak),
            *(block.seat, block.worker, block.attempts, self._keep_items(block.items), block.digests),
        )
        with self._lock, self._trouble():
            if len(took) > 1:  # failures of an earlier session that lie within this block
                within = (block.first, block.first + len(took))
                self._db.execute("DELETE FROM outcomes WHERE first > ? AND first < ?", within)
            self._db.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._dirty = True

    def _keep_items(self, items: Sequence[Any]) -> bytes | None:
        try:
            packed = parcel.pack(list(items))
        except Exception:
            return None
        return packed.to_bytes() if packed.size <= ITEMS_KEPT else None

    def commit(self) -> None:
        """From here on it is kept, whatever happens to this process."""
        if self._dirty:
            with self._lock, self._trouble():
                self._db.commit()
            self._dirty = False
        self._committed = time.monotonic()

    def seconds_since_commit(self) -> float:
        return time.monotonic() - self._committed

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._beside.clear()

    # -- reading ------------------------------------------------------------------------------------------------

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._lock, self._trouble():
            return self._db.execute(query, values).fetchall()

    def finished(self) -> list[tuple[int, int]]:
        """(first, count) of every block of tasks that returned a value, in order."""
        return self._read("SELECT first, count FROM outcomes WHERE ok ORDER BY first")

    def counts(self) -> tuple[int, int]:
        """How many tasks returned a value, and how many failed."""
        ((done, failed),) = self._read("SELECT TOTAL(count * ok), TOTAL(count * (1 - ok)) FROM outcomes")
        return int(done), int(failed)

    def digest(self, index: int) -> bytes:
        """The digest of a finished task's item; empty where none was kept."""
        rows = self._read("SELECT first, digests FROM outcomes WHERE first <= ? ORDER BY first DESC LIMIT 1", index)
        if not rows or not rows[0][1]:
            return b""
        first, digests = rows[0]
        place = (index - first) * digest.SIZE
        return bytes(digests[place : place + digest.SIZE])

    def item(self, index: int) -> Any:
        """The item of a finished task, where it was small enough to keep; else LookupError."""
        row = self._row(index)
        if row["items"] is None:
            raise LookupError(index)
        return parcel.unpack(bytearray(row["items"]))[index - row["first"]]

    def outcome(self, index: int) -> Outcome:
        """One task's outcome; LookupError where there is none yet."""
        block = self.block(index)
        return block[index - block[0].index]

    def block(self, index: int) -> list[Outcome]:
        """The outcomes of a task and of those that were done with it; LookupError where there is none yet."""
        return self._outcomes(self._row(index))

    def outcomes(self, *, ok: bool | None = None) -> Iterator[Outcome]:
        """Every outcome in the order of the items, opened as it is read; `ok` keeps those that returned, or failed."""
        for row in self._rows("" if ok is None else f"WHERE ok = {int(ok)}"):
            yield from self._outcomes(row)

    def values(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Every value in the order of the items, in blocks: the index of the first, and the values.

        The place of a failed task holds its error, and that of a value that cannot be opened an `Unopened`.
        """
        for row in self._rows(""):
            if row["ok"]:
                yield row["first"], _opened(lambda row=row: self._values(row), row["count"])  # type: ignore[misc]
            else:
                yield row["first"], [outcome.error for outcome in self._outcomes(row)]

    def reports(self, index: int | None = None) -> Iterator[Report]:
        """What tasks reported, in the order of their reports."""
        where, values = ("", ()) if index is None else ("task = ? AND", (index,))
        query = f"SELECT rowid, task, attempt, step, at, vals FROM reports WHERE {where} rowid > ? ORDER BY rowid"
        for _, task, attempt, step, at, text in self._paged(query, *values):
            yield Report(task, attempt, step, json.loads(text), at)

    def reporting(self) -> list[int]:
        """The tasks that have reported, in order."""
        return [task for (task,) in self._read("SELECT DISTINCT task FROM reports ORDER BY task")]

    def spans(self) -> Iterator[Span]:
        """When and where tasks ran, in their order; no value is opened."""
        columns = "first, ok, seconds, started, peak, seat, attempts"
        for first, ok, took, *others in self._paged(f"SELECT {columns} FROM outcomes WHERE first > ? ORDER BY first"):
            yield Span(first, bool(ok), array.array("d", took), *others)

    def failed_spans(self) -> Iterator[Span]:
        """When and where attempts failed, also those that were tried again."""
        columns = "rowid, task, seconds, ended, seat, attempt"
        rows = self._paged(f"SELECT {columns} FROM attempts WHERE rowid > ? ORDER BY rowid")
        for _, task, took, ended, seat, attempt in rows:
            yield Span(task, False, (took,), ended - took, 0, seat, attempt)

    def attempts(self, index: int) -> list[Failure]:
        """Why earlier attempts at a task failed."""
        rows = self._read("SELECT failure FROM attempts WHERE task = ? ORDER BY rowid", index)
        return [Failure.from_json(text) for (text,) in rows]

    def _row(self, index: int) -> dict[str, Any]:
        rows = self._read(f"SELECT {_COLUMNS} FROM outcomes WHERE first <= ? ORDER BY first DESC LIMIT 1", index)
        if not rows or rows[0][0] + rows[0][1] <= index:
            raise LookupError(f"task {index} has no outcome")
        return dict(zip(_COLUMNS.split(", "), rows[0], strict=True))

    def _rows(self, where: str) -> Iterator[dict[str, Any]]:
        joint = f"{where} AND" if where else "WHERE"
        query = f"SELECT {_COLUMNS} FROM outcomes {joint} first > ? ORDER BY first"
        for row in self._paged(query, most=8):  # values are in them: up to some MB in each
            yield dict(zip(_COLUMNS.split(", "), row, strict=True))

    def _paged(self, query: str, *values: Any, most: int = 1024) -> Iterator[Any]:
        """Rows in the order of their first column, some at a time: nobody else is kept from the database meanwhile."""
        after = -1
        while rows := self._read(f"{query} LIMIT {most}", *values, after):
            yield from rows
            after = rows[-1][0]

    def _outcomes(self, row: dict[str, Any]) -> list[Outcome]:
        seconds = array.array("d", row["seconds"])
        none: Sequence[Any] = [None] * row["count"]
        values = _opened(lambda: self._values(row), row["count"]) if row["ok"] else none
        failure = Failure.from_json(row["failure"]) if row["failure"] else None
        kept = row["items"]
        items = _opened(lambda: parcel.unpack(bytearray(kept)), row["count"]) if kept else none
        starts = list(itertools.accumulate(seconds, initial=row["started"]))
        found = []
        for place in range(row["count"]):
            found.append(
                Outcome(
                    index=row["first"] + place,
                    ok=bool(row["ok"]),
                    value=values[place],
                    failure=failure,
                    seconds=seconds[place],
                    started=starts[place],
                    peak=row["peak"],
                    seat=row["seat"],
                    worker=row["worker"],
                    attempts=row["attempts"],
                    item=items[place],
                )
            )
        return found

    def _values(self, row: dict[str, Any]) -> Sequence[Any]:
        if row["kind"] == PICKLES:
            return parcel.concatenated(row["value"], row["count"])
        if row["kind"] == PARCEL:
            return [parcel.unpack(bytearray(row["value"]))]
        if row["kind"] == BESIDE:
            return self._beside.values(row["first"])
        with self._trouble(), open(self._file(row["first"]), "rb") as file:
            return [parcel.unpack(parcel.load(file.fileno()))]

    def _file(self, index: int) -> Path:
        assert self.folder is not None
        return self.folder.values / f"{index:06d}.parcel"


def _opened(open_all: Callable[[], Sequence[Any]], count: int) -> Sequence[Any]:
    """Unpickling runs the user's code, and may miss the user's classes: that must not hide what is around it."""
    try:
        found = open_all()
        if len(found) != count:
            raise ValueError(f"{len(found)} of {count}")
        return found
    except RunUnusable:
        raise
    except Exception as error:
        return [Unopened(f"{type(error).__name__}: {error}")] * count
