"""Parquet: the columns of a table, by name. Several files are one table. Only row groups and columns that are wanted
are read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenfold.data import arrow, stamps
from tenfold.data.bands import Banded
from tenfold.data.chained import Chained
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.errors import BadCall, SampleUnreadable


def files(paths: Sequence[str], columns: Sequence[str] | None, name: str) -> Source:
    """A table in one or several files."""
    first = ParquetFile(paths[0], columns, name)
    if len(paths) == 1:
        return first
    members = [first, *[ParquetFile(path, columns, name) for path in paths[1:]]]
    different = [
        f"{member.path!r} has {_told(member.schema)}"
        for member in members[1:]
        if not member.schema.equals(first.schema, check_metadata=False)
    ]
    if different:
        told = "; ".join(different[:3])
        more = f"; and {len(different) - 3} more" if len(different) > 3 else ""
        raise BadCall(f"{name}: {first.path!r} has {_told(first.schema)}, but {told}{more}; expected the same in all")
    gaps = frozenset[str]().union(*[member.gaps for member in members])
    for member in members:
        member.gaps = gaps
    return Chained(members, f"rows of {', '.join(first.schema.names)} in {len(members)} Parquet files")


def _told(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


class ParquetFile(Banded):
    """The rows of one file."""

    def __init__(self, path: str, columns: Sequence[str] | None, name: str) -> None:
        told = f"{name}={path!r}"
        library = arrow.library()
        import pyarrow.parquet as parquet

        try:
            metadata = parquet.read_metadata(path)
            schema = metadata.schema.to_arrow_schema()
        except (library.ArrowException, OSError) as error:
            raise BadCall(f"{told}: pyarrow cannot open it ({error}); expected a Parquet file") from error
        wanted = chosen(schema.names, columns, told, "columns")
        self.path = os.path.abspath(path)
        self.schema = library.schema([schema.field(column) for column in wanted])
        self.gaps = _gaps(metadata, wanted)
        groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        super().__init__(np.cumsum([0, *groups]))
        self._mark = stamps.of_texts(stamps.of_file(path), *wanted)

    @property
    def sample_bytes(self) -> int:
        return arrow.width(self.schema)

    def band(self, number: int) -> Rows:
        import pyarrow.parquet as parquet

        try:
            with parquet.ParquetFile(self.path) as file:
                table = file.read_row_group(number, columns=self.schema.names, use_threads=False)
            return arrow.rows(table.select(self.schema.names), self.gaps)
        except (arrow.library().ArrowException, OSError) as error:
            low, high = self._edges[number], self._edges[number + 1]
            raise SampleUnreadable(f"{self.path}: rows {low} to {high} cannot be read: {error}") from error

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def describe(self) -> str:
        return f"{self.length} rows of {', '.join(self.schema.names)} in {self.path}"


def _gaps(metadata: Any, columns: Sequence[str]) -> frozenset[str]:
    """Columns with missing values, as the file itself counts them: one type for all slices of a column."""
    found = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            facts = chunk.statistics
            if chunk.path_in_schema in columns and (facts is None or not facts.has_null_count or facts.null_count):
                found.add(chunk.path_in_schema)
    return frozenset(found)
