"""Scores sorted from the greatest down, in runs that merge: in memory as long as they are few, then in files.

    blocks ─> Run ─┐
    blocks ─> Run ─┴─ Pile: a few runs, each twice as long as the next ── shed() ─> files, one run at a time
                        └── chunks(): all runs, in memory and in files, read side by side in order

Runs in files are read through memory maps, a window of each at a time, so memory does not depend on how many there are.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.labels import union
from tenfold.metrics.port import Array

WINDOW = 1 << 18
"""How many scores are read at once from all runs together: 7 MB."""


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted scores. Rows with the same score and label are one entry, unless rows are kept apart."""

    depth: Array
    """The scores times -1, ascending: the greatest score is the first."""
    code: Array
    """The label of each, as a place in `labels`."""
    weight: Array
    """The weight of each."""
    row: Array | None
    """The number of the row, where rows are kept apart for a bootstrap."""
    labels: Array
    """The labels, sorted."""

    def __len__(self) -> int:
        return len(self.depth)


@dataclass(frozen=True, slots=True)
class Shelved:
    """A run in a file: its columns one after the other. One file, since a map of it holds a descriptor."""

    path: str
    """The file."""
    length: int
    """How many entries."""
    has_rows: bool
    """Whether rows are kept apart."""
    labels: Array
    """The labels, sorted."""

    def opened(self) -> Run:
        """The run, mapped into memory and not read."""
        raw = numpy.memmap(self.path, numpy.uint8, mode="r")
        wide = [raw[place * 8 * self.length : (place + 1) * 8 * self.length] for place in range(2 + self.has_rows)]
        row = wide[2].view(numpy.int64) if self.has_rows else None
        code = raw[len(wide) * 8 * self.length :].view(numpy.int32)
        return Run(wide[0].view(numpy.float64), code, wide[1].view(numpy.float64), row, self.labels)

    def remove(self) -> None:
        """Delete its file."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Pile:
    """All scores of one column."""

    runs: tuple[Run, ...]
    """In memory, the longest first."""
    shelved: tuple[Shelved, ...] = ()
    """In files."""

    @property
    def held(self) -> int:
        """How many entries are in memory."""
        return sum(len(run) for run in self.runs)


def run_of(score: Array, code: Array, weight: Array, row: Array | None, labels: Array) -> Run:
    """Sort the scores of one block."""
    return _sorted(-score.astype(numpy.float64), code.astype(numpy.int32), weight, row, labels)


def joined(a: Pile, b: Pile) -> Pile:
    """Both. A run is merged with one that is not twice as long, so each entry is moved only log(n) times."""
    runs = sorted((*a.runs, *b.runs), key=len, reverse=True)
    settled: list[Run] = []
    for run in runs:
        settled.append(run)
        while len(settled) > 1 and len(settled[-2]) < 2 * len(settled[-1]):
            last = settled.pop()
            settled.append(_merged(settled.pop(), last))
    return Pile(tuple(settled), (*a.shelved, *b.shelved))


def shed(pile: Pile, folder: str | os.PathLike[str]) -> Pile:
    """Write what is in memory to a folder, as one run."""
    if not pile.runs:
        return pile
    whole = pile.runs[-1]
    for run in reversed(pile.runs[:-1]):
        whole = _merged(run, whole)
    path = Path(folder) / f"run-{uuid.uuid4().hex}"
    shelved = Shelved(str(path), len(whole), whole.row is not None, whole.labels)
    try:
        with open(path, "wb") as file:
            for column in (whole.depth, whole.weight, whole.row, whole.code):  # wide ones first, so all are aligned
                if column is not None:
                    file.write(numpy.ascontiguousarray(column).data)
    except OSError:
        shelved.remove()
        raise
    return Pile((), (*pile.shelved, shelved))


def chunks(pile: Pile, window: int = WINDOW) -> Iterator[Run]:
    """All entries in order, some at a time. Equal scores may be in two chunks that follow each other."""
    runs = [*pile.runs, *(shelved.opened() for shelved in pile.shelved)]
    labels = runs[0].labels
    for run in runs[1:]:
        labels = union(labels, run.labels)
    codes = [numpy.searchsorted(labels, run.labels).astype(numpy.int32) for run in runs]
    step = max(1, window // len(runs))
    at = [0] * len(runs)
    while live := [place for place, run in enumerate(runs) if at[place] < len(run)]:
        cut = min(runs[place].depth[min(at[place] + step, len(runs[place])) - 1] for place in live)
        pieces = []
        for place in live:
            run, start = runs[place], at[place]
            stop = start + int(numpy.searchsorted(run.depth[start : start + step], cut, side="right"))
            row = None if run.row is None else run.row[start:stop]
            code = codes[place][run.code[start:stop]]
            pieces.append(Run(run.depth[start:stop], code, run.weight[start:stop], row, labels))
            at[place] = stop
        depth, code, weight, row = _together(pieces)
        order = numpy.argsort(depth, kind="stable")
        yield Run(depth[order], code[order], weight[order], None if row is None else row[order], labels)


def _merged(a: Run, b: Run) -> Run:
    labels = union(a.labels, b.labels)
    pieces = [
        Run(
            run.depth, numpy.searchsorted(labels, run.labels).astype(numpy.int32)[run.code], run.weight, run.row, labels
        )
        for run in (a, b)
    ]
    return _sorted(*_together(pieces), labels)


def _together(pieces: list[Run]) -> tuple[Array, Array, Array, Array | None]:
    rows = [piece.row for piece in pieces if piece.row is not None]
    if rows and len(rows) != len(pieces):
        raise BadCall("states of metrics with and without a bootstrap cannot be merged")
    depth, code, weight = (
        numpy.concatenate([getattr(piece, name) for piece in pieces]) for name in ("depth", "code", "weight")
    )
    return depth, code, weight, numpy.concatenate(rows) if rows else None


def _sorted(depth: Array, code: Array, weight: Array, row: Array | None, labels: Array) -> Run:
    if row is not None:
        order = numpy.argsort(depth, kind="stable")
        return Run(depth[order], code[order], weight[order], row[order], labels)
    order = numpy.lexsort((code, depth))
    depth, code = depth[order], code[order]
    starts = numpy.flatnonzero(numpy.concatenate([[True], (numpy.diff(depth) != 0) | (numpy.diff(code) != 0)]))
    return Run(depth[starts], code[starts], numpy.add.reduceat(weight[order], starts), None, labels)


def removed(piles: tuple[Pile, ...]) -> None:
    """Delete the files of all of them."""
    for shelved in itertools.chain.from_iterable(pile.shelved for pile in piles):
        shelved.remove()
