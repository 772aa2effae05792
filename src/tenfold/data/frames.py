"""Dataframes of pandas: a sample is a dict of column to value. The same rules as for tables of Arrow's (`arrow`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenfold.data import arrays
from tenfold.data.naming import chosen
from tenfold.data.source import Source
from tenfold.data.together import Together


def of(frame: Any, columns: Sequence[str] | None, name: str) -> Source:
    """A dataframe in memory."""
    names = [str(one) for one in frame.columns]
    wanted = chosen(names, columns, name, "columns")
    found = {key: column(frame.iloc[:, names.index(key)]) for key in wanted}
    return Together({key: arrays.of_array(array, f"{name}[{key!r}]") for key, array in found.items()}, name)


def column(values: Any) -> np.ndarray[Any, Any]:
    """A column, or a series, as an array. A missing number is NaN, and a missing text is None."""
    kind = values.dtype
    if not isinstance(kind, np.dtype) and kind.kind in "iufb":  # pandas' own numbers, which may be missing
        gaps = bool(values.isna().any())
        return np.asarray(
            values.to_numpy(dtype="float64", na_value=np.nan) if gaps else values.to_numpy(kind.numpy_dtype)
        )
    if not isinstance(kind, np.dtype) and kind.kind == "M":  # with a time zone, which NumPy does not know
        return np.asarray(values.dt.tz_convert("UTC").dt.tz_localize(None))
    found = np.array(values)
    if found.dtype.hasobject or found.dtype.kind in "US":
        found = np.array(values, dtype=object)
        found[np.asarray(values.isna())] = None
    return found
