"""Columns of tables as NumPy arrays: what Parquet and CSV have in common.

Numbers, booleans and times come as they are. Texts come as arrays of Python's `str` (dtype object): with NumPy's own
texts, the type would depend on the longest one of a slice. A missing text is None. A missing number is NaN, and so its
column is of floats. A column of lists of one fixed length is an array with one more dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenfold.data import arrays
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.data.together import Together
from tenfold.machine.installed import imported


def library() -> Any:
    """pyarrow; a clear error where it is not installed."""
    return imported("pyarrow", "pyarrow, which tables need,", "data")


def of(table: Any, columns: Sequence[str] | None, name: str) -> Source:
    """A table of Arrow's, or a batch of its records, in memory."""
    wanted = chosen(table.column_names, columns, name, "columns")
    whole = table if isinstance(table, library().Table) else library().Table.from_batches([table])
    found = rows(whole.select(wanted))
    return Together({key: arrays.of_array(array, f"{name}[{key!r}]") for key, array in found.items()}, name)


def rows(table: Any, floats: frozenset[str] = frozenset()) -> Rows:
    """A table of Arrow's as a dict of arrays. `floats`: columns that have gaps somewhere, if not in these rows."""
    return {name: _column(table.column(name), name in floats) for name in table.column_names}


def _column(column: Any, gaps: bool) -> np.ndarray[Any, Any]:
    types = library().types
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind) and (gaps or column.null_count):
        column, kind = column.cast("int8"), library().int8()
    if types.is_integer(kind) and (gaps or column.null_count):
        return np.asarray(column.cast("float64", safe=False).to_numpy())
    if types.is_fixed_size_list(kind) and not column.null_count:
        flat = column.combine_chunks().flatten() if column.num_chunks != 1 else column.chunk(0).flatten()
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), kind.list_size)
    if types.is_nested(kind) and not types.is_list(kind):
        return _objects(column.to_pylist())
    return np.asarray(column.to_numpy())


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def width(schema: Any) -> int:
    """About how many bytes a row takes."""
    found = 0
    for kind in schema.types:
        try:
            found += max(1, kind.bit_width // 8)
        except ValueError:  # texts and lists, whose length is not known
            found += 64
    return found
