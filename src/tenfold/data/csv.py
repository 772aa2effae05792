"""CSV: the columns of a table, by name. Several files are one table.

The caller looks through a file for the ends of its lines, a block at a time. So a worker reads and parses only the
blocks that it needs. The types of the columns are those that pyarrow infers from the first block; whole numbers are
looked for in all blocks, since they may have gaps or become floats further below.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from tenfold.data import arrow, stamps
from tenfold.data.bands import Banded
from tenfold.data.chained import Chained
from tenfold.data.lines import ends_of, index
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.errors import BadCall, SampleUnreadable

BLOCK = 1 << 20
"""Bytes that are parsed at once: enough for pyarrow to be fast, few enough for one row to be had soon."""


def files(paths: Sequence[str], columns: Sequence[str] | None, name: str) -> Source:
    """A table in one or several files. The types are those of the first one."""
    first = CsvFile(paths[0], columns, name)
    if len(paths) == 1:
        return first
    members = [first, *[CsvFile(path, columns, name, like=first) for path in paths[1:]]]
    floats = frozenset[str]().union(*[member.floats for member in members])
    for member in members:
        member.floats = floats
    return Chained(members, f"rows of {', '.join(first.columns)} in {len(members)} CSV files")


class CsvFile(Banded):
    """The rows of one file."""

    def __init__(self, path: str, columns: Sequence[str] | None, name: str, like: CsvFile | None = None) -> None:
        told = f"{name}={path!r}"
        self.path = os.path.abspath(path)
        self._separator = "\t" if path.lower().endswith(".tsv") else ","
        schema = self._inferred(told)
        self.names = list(schema.names)
        if like is not None and self.names != like.names:
            raise BadCall(f"{told} has the columns {self.names}, but {like.path!r} has {like.names}; expected the same")
        self.columns = chosen(self.names, columns, told, "columns")
        types = {one: schema.field(one).type for one in self.columns}
        self._types: dict[str, Any] = types if like is None else like._types
        rows, self._places = index(path, self._separator.encode(), BLOCK, told)
        super().__init__(rows)
        self.floats = self._not_whole()
        self._broken: tuple[int, bytes, list[int]] | None = None
        self._mark = stamps.of_texts(stamps.of_file(path), *self.columns)

    def _inferred(self, told: str) -> Any:
        library = arrow.library()
        from pyarrow import csv

        options = csv.ReadOptions(block_size=BLOCK, use_threads=False)
        try:
            with csv.open_csv(self.path, read_options=options, parse_options=self._parsing("skip")) as reader:
                schema = reader.schema
                first = next(iter(reader), schema.empty_table())
        except (library.ArrowException, OSError) as error:
            raise BadCall(f"{told}: pyarrow cannot read its first rows ({error}); expected a CSV file") from error
        if len(schema.names) == 1 and any(mark in schema.names[0] for mark in ";\t|"):
            raise BadCall(
                f"{told}: its only column is {schema.names[0]!r}; expected columns separated by commas, or by tabs "
                "in a .tsv file"
            )
        return library.schema([_kind(field, first.column(place)) for place, field in enumerate(schema)])

    def _not_whole(self) -> frozenset[str]:
        """Columns that begin with whole numbers, and have gaps or other numbers somewhere: one type for all slices."""
        library = arrow.library()
        whole = {one for one, kind in self._types.items() if library.types.is_integer(kind)}
        found: set[str] = set()
        for number in range(len(self._places) - 1):
            if found == whole:
                break
            block = self._block(number)
            try:
                table = self._table(block, {one: library.int64() for one in whole - found})
                found |= {one for one in table.column_names if table.column(one).null_count}
            except library.ArrowException:
                found |= {one for one in whole - found if self._is_not_whole(block, one)}
        return frozenset(found)

    def _is_not_whole(self, block: bytes, column: str) -> bool:
        """The same for a column of one block. A value that is no number is for whoever reads its row."""
        library = arrow.library()
        for kind in (library.int64(), library.float64()):
            with contextlib.suppress(library.ArrowException):
                values = self._table(block, {column: kind}).column(column)
                return bool(kind == library.float64() or values.null_count)
        return False

    def _parsing(self, broken: str = "error") -> Any:
        """`broken`: what is done about lines with too few or too many values."""
        from pyarrow import csv

        return csv.ParseOptions(
            delimiter=self._separator, newlines_in_values=True, invalid_row_handler=lambda row: broken
        )

    @property
    def sample_bytes(self) -> int:
        return arrow.width(arrow.library().schema(list(self._types.items())))

    def band(self, number: int) -> Rows:
        return self._parsed(self._block(number), int(self._edges[number]), int(self._edges[number + 1]))

    def within(self, number: int, low: int, high: int) -> Rows:
        broken = self._broken
        if broken is None or broken[0] != number:
            try:
                return super().within(number, low, high)
            except SampleUnreadable:  # one bad row does not take the others of its block with it
                block = self._block(number)
                broken = self._broken = number, block, [0, *ends_of(block).tolist()]
        _, block, ends = broken
        first = int(self._edges[number])
        return self._parsed(block[ends[low] : ends[high]], first + low, first + high)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_broken": None}

    def _block(self, number: int) -> bytes:
        start, stop = int(self._places[number]), int(self._places[number + 1])
        with open(self.path, "rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def _parsed(self, block: bytes, first: int, after: int) -> Rows:
        library = arrow.library()
        told = f"{self.path}: row {first}" if after - first == 1 else f"{self.path}: in rows {first} to {after - 1}"
        try:
            table = self._table(block, self._types | dict.fromkeys(self.floats, library.float64()))
        except library.ArrowException as error:
            raise SampleUnreadable(
                f"{told}, a value does not parse: {error}. Types are those of the first megabyte; mend the value, or "
                "leave its column out with columns=[...]"
            ) from error
        if table.num_rows != after - first:
            raise SampleUnreadable(f"{told}, {table.num_rows} rows were read; has the file been changed?")
        return arrow.rows(table)

    def _table(self, block: bytes, types: dict[str, Any]) -> Any:
        """These columns of some whole lines."""
        from pyarrow import csv

        return csv.read_csv(
            arrow.library().BufferReader(block),
            read_options=csv.ReadOptions(column_names=self.names, block_size=len(block) + 1, use_threads=False),
            parse_options=self._parsing(),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types)),
        )

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, *sorted(self.floats), start, stop)

    def describe(self) -> str:
        return f"{self.length} rows of {', '.join(self.columns)} in {self.path}"


def _kind(field: Any, values: Any) -> Any:
    """What is inferred; texts where the first block has nothing in a column, floats where it has gaps."""
    library = arrow.library()
    if library.types.is_null(field.type):
        return field.with_type(library.string())
    return field.with_type(library.float64()) if library.types.is_integer(field.type) and values.null_count else field
