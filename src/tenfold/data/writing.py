"""Rows in `.npy` files that many processes write at once, each its own rows: by place, with nobody in between.

A file is begun with a header of a fixed size, whose number of rows is filled in when it is known. Until then it is not
to be opened; so it has another name.
"""

from __future__ import annotations

import ctypes
import functools
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy

from tenfold.data.form import Column, Form

HEADER = 256  # bytes; a multiple of 64, so that rows are aligned, and enough for any dtype and shape here
COPIED = 16 << 20  # bytes at a time
BEGUN = 8 << 20  # bytes that a process writes before it has them stored: each order costs some tenths of a millisecond
_BEGIN = 2  # SYNC_FILE_RANGE_WRITE, of fcntl.h

_held = 0

Range = tuple[int, int]
"""Rows from the first to before the last."""


def write(folder: Path, form: Form, start: int, block: Sequence[numpy.ndarray[Any, Any]]) -> None:
    """These rows, from place `start` on, into the files of a set that is being written."""
    for column, array in zip(form.columns, block, strict=True):
        file = os.open(path_of(folder, column), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _write_all(file, _bytes(array), HEADER + start * column.row_bytes)
            _begin_to_store(file, array.nbytes)
        finally:
            os.close(file)


def read(folder: Path, form: Form, start: int, stop: int) -> list[numpy.ndarray[Any, Any]]:
    """Rows of such files, finished or not."""
    found = []
    for column in form.columns:
        array = numpy.empty((stop - start, *column.shape), column.dtype)
        with open(path_of(folder, column), "rb", buffering=0) as file:
            file.seek(HEADER + start * column.row_bytes)
            if array.nbytes and file.readinto(_bytes(array)) != array.nbytes:
                raise OSError(f"{path_of(folder, column)} is shorter than it should be")
        found.append(array)
    return found


def path_of(folder: Path, column: Column) -> Path:
    return folder / f"{column.name}.npy"


class Checksum:
    """Of the bytes of rows that come block by block: however they are cut, it is the same."""

    def __init__(self) -> None:
        self._columns: list[int] = []

    def add(self, block: Sequence[numpy.ndarray[Any, Any]]) -> None:
        before = self._columns or [0] * len(block)
        self._columns = [zlib.crc32(_bytes(array), one) for array, one in zip(block, before, strict=True)]

    @property
    def value(self) -> int:
        """That of the first column, and the others' in it."""
        first, *others = self._columns or [0]
        return zlib.crc32(b"".join(one.to_bytes(4, "little") for one in others), first)


def checksum(blocks: Iterable[Sequence[numpy.ndarray[Any, Any]]]) -> int:
    """Of all of them."""
    found = Checksum()
    for block in blocks:
        found.add(block)
    return found.value


def finish(path: Path, column: Column, rows: int) -> None:
    """Give a file its header and its length: from here on it is an ordinary `.npy` file."""
    description = {"descr": column.dtype.str, "fortran_order": False, "shape": (rows, *column.shape)}
    text = repr(description).encode()
    size = HEADER - 10
    header = b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + text.ljust(size - 1) + b"\n"
    with open(path, "r+b") as file:
        file.write(header)
        file.truncate(HEADER + rows * column.row_bytes)
        file.flush()
        os.fsync(file.fileno())


def join(target: Path, column: Column, pieces: Iterable[tuple[Path, Range]]) -> None:
    """Rows of several such files, one after the other, in a new one; copied by the kernel where it can."""
    with open(target, "wb") as out:
        out.truncate(HEADER)
        place = HEADER
        for path, (start, stop) in _merged(pieces):
            with open(path, "rb") as file:
                place = _copy(
                    file.fileno(),
                    HEADER + start * column.row_bytes,
                    out.fileno(),
                    place,
                    (stop - start) * column.row_bytes,
                )


def _merged(pieces: Iterable[tuple[Path, Range]]) -> Iterable[tuple[Path, Range]]:
    """Neighbours in one file are copied at once."""
    last: tuple[Path, Range] | None = None
    for path, (start, stop) in pieces:
        if last is not None and last[0] == path and last[1][1] == start:
            last = (path, (last[1][0], stop))
            continue
        if last is not None:
            yield last
        last = (path, (start, stop))
    if last is not None:
        yield last


def _copy(source: int, at: int, target: int, place: int, size: int) -> int:
    end = place + size
    while place < end:
        data = os.pread(source, min(COPIED, end - place), at)
        if not data:
            raise OSError(f"a file of rows is shorter than it should be: {size} bytes were expected")
        place += os.pwrite(target, data, place)
        at += len(data)
    return place


def _write_all(file: int, data: memoryview, place: int) -> None:
    while data:
        written = os.pwrite(file, data, place)
        place += written
        data = data[written:]


def _begin_to_store(file: int, size: int) -> None:
    """Have the kernel begin to write to the disk what it would otherwise hold until `finish` waits for all of it.

    A gigabyte took 0.2 s there, with all workers idle. It only helps, so what goes wrong is told by `finish`.
    """
    global _held
    _held += size
    begin = _sync_file_range()
    if _held >= BEGUN and begin is not None:
        _held = 0
        begin(file, 0, 0, _BEGIN)  # all of the file


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux has it, and Python no name for it."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


def _bytes(array: numpy.ndarray[Any, Any]) -> memoryview:
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data
