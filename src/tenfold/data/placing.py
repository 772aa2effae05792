"""In a worker: the rows of a part into the files of the set, as they come, so that only some of them are held.

Rows are written where their samples are. When it turns out that there are more or fewer of them than samples, they go
to files of their own, also those that were written before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from tenfold.data import writing
from tenfold.data.form import Form
from tenfold.data.source import Part

HELD = 8 << 20
"""Bytes of rows that are gathered before they are written: enough that what it costs to open a file does not count."""
APART = "apart"
Block = list["numpy.ndarray[Any, Any]"]


class Placing:
    """The rows of one part."""

    def __init__(self, folder: Path, part: Part) -> None:
        self._folder = folder
        self._part = part
        self._home, self._first = folder, part.start
        self._held: list[Block] = []
        self._size = 0  # bytes that are held
        self._written = 0  # rows
        self._sum = writing.Checksum()

    def add(self, block: Block, form: Form) -> None:
        """Some more rows."""
        if not len(block[0]):
            return
        size = sum(array.nbytes for array in block)
        if self._held and self._size + size > HELD:
            self._write(form)
        self._held.append(block)
        self._size += size

    def end(self, form: Form | None) -> tuple[int, int]:
        """How many rows there are, and their checksum. Without a form there are none."""
        if form is not None and self._held:
            held = sum(len(block[0]) for block in self._held)
            if self._written + held < self._part.stop - self._part.start:
                self._leave(form)
            self._write(form)
        return self._written, self._sum.value

    def _write(self, form: Form) -> None:
        block = _joined(self._held)
        rows = len(block[0])
        if self._written + rows > self._part.stop - self._part.start:
            self._leave(form)
        writing.write(self._home, form, self._first + self._written, block)
        self._sum.add(block)
        self._written += rows
        self._held, self._size = [], 0

    def _leave(self, form: Form) -> None:
        """They are not to stay in place."""
        if self._home != self._folder:
            return
        self._home, self._first = apart_of(self._folder, self._part.start), 0
        self._home.mkdir(parents=True, exist_ok=True)
        rows = (self._part.start, self._part.start + self._written)
        for column in form.columns if self._written else ():
            source, target = writing.path_of(self._folder, column), writing.path_of(self._home, column)
            writing.join(target, column, [(source, rows)])


def apart_of(folder: Path, start: int) -> Path:
    """Where the rows of a part are that became more or fewer than its samples."""
    return folder / APART / f"{start:012d}"


def _joined(blocks: list[Block]) -> Block:
    return blocks[0] if len(blocks) == 1 else [numpy.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
