"""The files of a prepared set: `.npy`, Zarr or Parquet, read by any rows; and arrays in memory, read alike."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy

from tenfold.data import writing
from tenfold.data.form import Column, Form
from tenfold.errors import BadCall
from tenfold.machine.installed import imported

Format = Literal["npy", "zarr", "parquet"]
Array = numpy.ndarray[Any, Any]

CHUNK = 8 << 20
"""Bytes of a chunk or a row group: little enough for a worker to hold some, and enough that a disk is not the limit."""
READ = 2 * CHUNK
"""Bytes that are read at a time to go through all rows: chunks at the edges are decoded twice."""
_UNITS = ("s", "ms", "us", "ns")
"""Of times in Parquet; dates have days, too."""
ZARR = "data.zarr"
PARQUET = "data.parquet"


class Store(Protocol):
    """Rows of one set. Safe to read from several threads."""

    def read(self, start: int, stop: int) -> list[Array]:
        """Consecutive rows, an array for each column; nothing else is loaded."""

    def take(self, rows: Array) -> list[Array]:
        """Any rows, in the order that is asked for."""

    def whole(self) -> list[Array]:
        """All rows: where they lie if that is possible, else in memory."""

    def only(self, place: int) -> Self:
        """One of the columns: of the others, nothing is loaded."""


class InMemory:
    """Arrays that are here already."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = list(arrays)

    def read(self, start: int, stop: int) -> list[Array]:
        return [array[start:stop] for array in self._arrays]

    def take(self, rows: Array) -> list[Array]:
        return [array[rows] for array in self._arrays]

    def whole(self) -> list[Array]:
        return self._arrays

    def only(self, place: int) -> Self:
        return type(self)([self._arrays[place]])


class InFolder:
    """What stores of files share: pickled as the name of their folder, opened where they are read."""

    def __init__(self, folder: Path, form: Form) -> None:
        self._folder = folder
        self._form = form

    def __reduce__(self) -> Any:
        return type(self), (self._folder, self._form)

    def only(self, place: int) -> Self:
        return type(self)(self._folder, self._form.only(place))


class Npy(InFolder):
    """An `.npy` file for each column, mapped."""

    @cached_property
    def _maps(self) -> list[Array]:
        paths = [writing.path_of(self._folder, column) for column in self._form.columns]
        return [numpy.load(path, mmap_mode="r", allow_pickle=False) for path in paths]

    def read(self, start: int, stop: int) -> list[Array]:
        return [numpy.asarray(array[start:stop]) for array in self._maps]

    def take(self, rows: Array) -> list[Array]:
        return [numpy.asarray(array[rows]) for array in self._maps]

    def whole(self) -> list[Array]:
        return list(self._maps)


class Zarr(InFolder):
    """One Zarr group with an array for each column."""

    @cached_property
    def _arrays(self) -> list[Any]:
        group = _zarr().open_group(str(self._folder / ZARR), mode="r")
        return [group[column.name] for column in self._form.columns]

    def read(self, start: int, stop: int) -> list[Array]:
        return [numpy.asarray(array[start:stop]) for array in self._arrays]

    def take(self, rows: Array) -> list[Array]:
        # Zarr wants increasing places.
        order, places = numpy.unique(rows, return_inverse=True)
        return [numpy.asarray(array.get_orthogonal_selection((order,)))[places] for array in self._arrays]

    def whole(self) -> list[Array]:
        return [numpy.asarray(array[:]) for array in self._arrays]


class Parquet(InFolder):
    """One Parquet file. A row that is an array is a list of a fixed length in it."""

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the end."""
        with self._opened() as file:
            found = [0]
            for group in range(file.num_row_groups):
                found.append(found[-1] + file.metadata.row_group(group).num_rows)
            return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        with _parquet().ParquetFile(self._folder / PARQUET, memory_map=True) as file:
            yield file

    def read(self, start: int, stop: int) -> list[Array]:
        starts = self._starts
        groups = [g for g in range(len(starts) - 1) if starts[g] < stop and starts[g + 1] > start]
        if not groups:
            return [numpy.empty((0, *column.shape), column.dtype) for column in self._form.columns]
        with self._opened() as file:
            table = file.read_row_groups(groups, [column.name for column in self._form.columns])
            table = table.slice(start - starts[groups[0]], stop - start)
        return [_from_arrow(table[column.name], column) for column in self._form.columns]

    def take(self, rows: Array) -> list[Array]:
        """Group by group, so that each is read once."""
        rows = numpy.asarray(rows)
        found = [numpy.empty((len(rows), *column.shape), column.dtype) for column in self._form.columns]
        home = numpy.searchsorted(self._starts, rows, side="right") - 1
        for group in numpy.unique(home):
            mine = numpy.flatnonzero(home == group)
            block = self.read(self._starts[group], self._starts[group + 1])
            for target, array in zip(found, block, strict=True):
                target[mine] = array[rows[mine] - self._starts[group]]
        return found

    def whole(self) -> list[Array]:
        return self.read(0, self._starts[-1])


class Raw(InFolder):
    """`.npy` files that are still being written: without their header, and read by place."""

    def read(self, start: int, stop: int) -> list[Array]:
        return writing.read(self._folder, self._form, start, stop)


KINDS: dict[str, Any] = {"npy": Npy, "zarr": Zarr, "parquet": Parquet, "raw": Raw}
FORMATS = ("npy", "zarr", "parquet")


def files(form: Form, format: str) -> list[str]:  # noqa: A002
    """The names of a set's files."""
    if format == "npy":
        return [writing.path_of(Path(), column).name for column in form.columns]
    return [ZARR if format == "zarr" else PARQUET]


def convert(folder: Path, form: Form, format: str) -> None:  # noqa: A002
    """From `.npy` files to another format, block by block."""
    if format == "npy":
        return
    source = Npy(folder, form)
    rows = len(source.whole()[0])
    if format == "zarr":
        _to_zarr(source, form, rows, folder / ZARR)
    else:
        _to_parquet(source, form, rows, folder / PARQUET)
    for column in form.columns:
        writing.path_of(folder, column).unlink()


def check(form: Form, format: str) -> None:  # noqa: A002
    """BadCall where a format has no type for a column: when rows come, and not when all are there."""
    for column in form.columns:
        if format != "npy" and not _fits(column.dtype, format):
            name = format.capitalize()
            raise BadCall(f"{column.name} is {column}, which {name} cannot keep; return another type, or format='npy'")


def _fits(dtype: numpy.dtype[Any], format: str) -> bool:  # noqa: A002
    if dtype.kind in "mM":
        unit = numpy.datetime_data(dtype)[0]
        return unit != "generic" if format == "zarr" else unit in _UNITS or dtype == "M8[D]"
    return dtype.itemsize <= {"f": 8, "c": 16}.get(dtype.kind, dtype.itemsize)


def needed(format: str) -> None:  # noqa: A002
    """MissingPackage where a format's library is not there."""
    if format == "zarr":
        _zarr()
    elif format == "parquet":
        _parquet()


def blocks(store: Store, form: Form, start: int, stop: int) -> Iterator[list[Array]]:
    """Consecutive rows, as many at a time as may be held."""
    return (store.read(*places) for places in _steps(start, stop, form.row_bytes, READ))


def _steps(start: int, stop: int, row_bytes: int, at_a_time: int = CHUNK) -> Iterator[tuple[int, int]]:
    step = max(1, at_a_time // max(1, row_bytes))
    return ((place, min(place + step, stop)) for place in range(start, stop, step))


def _to_zarr(source: Npy, form: Form, rows: int, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    group = _zarr().open_group(str(path), mode="w")
    for column, array in zip(form.columns, source.whole(), strict=True):
        step = min(max(1, rows), max(1, CHUNK // max(1, column.row_bytes)))
        target = group.create_array(
            column.name, shape=(rows, *column.shape), chunks=(step, *column.shape), dtype=column.dtype
        )
        for start, stop in _steps(0, rows, column.row_bytes):
            target[start:stop] = array[start:stop]


def _to_parquet(source: Npy, form: Form, rows: int, path: Path) -> None:
    import pyarrow

    writer: Any = None
    try:
        for start, stop in _steps(0, rows, form.row_bytes) if rows else [(0, 0)]:
            block = source.read(start, stop)
            columns = {c.name: _to_arrow(a, c) for a, c in zip(block, form.columns, strict=True)}
            table = pyarrow.table(columns)
            writer = writer or _parquet().ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=max(1, stop - start))
    finally:
        if writer is not None:
            writer.close()


def _to_arrow(array: Array, column: Column) -> Any:
    import pyarrow

    if not column.row_bytes:  # lists of nothing are refused
        return pyarrow.nulls(len(array))
    plain = numpy.ascontiguousarray(array, column.dtype.newbyteorder("="))
    if column.dtype.kind == "c":
        plain = plain.reshape(len(array), -1).view(plain.real.dtype)  # the real and the imaginary part
    flat = plain.reshape(-1)
    # Of an array of texts, Arrow takes what is before the first zero in each.
    found = pyarrow.array(flat.tolist() if column.dtype.kind in "SU" else flat)
    if not column.shape and column.dtype.kind != "c":
        return found
    return pyarrow.FixedSizeListArray.from_arrays(found, plain.size // len(plain))


def _from_arrow(found: Any, column: Column) -> Array:
    if not column.row_bytes:
        return numpy.empty((len(found), *column.shape), column.dtype)
    whole = found.combine_chunks()
    if column.shape or column.dtype.kind == "c":
        whole = whole.flatten()
    array = numpy.asarray(whole.to_numpy(zero_copy_only=False))
    if column.dtype.kind == "c":
        array = array.view(column.dtype.newbyteorder("="))
    return array.astype(column.dtype, copy=False).reshape(-1, *column.shape)


def _zarr() -> Any:
    return imported("zarr", "Zarr, which format='zarr' needs,", "data")


def _parquet() -> Any:
    return imported("pyarrow.parquet", "pyarrow, which format='parquet' needs,", "data")
