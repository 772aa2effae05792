"""Dask: arrays by their chunks, dataframes by their partitions. A worker computes those that it needs, in itself: a
scheduler with threads of its own would take the cores of the other workers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

from tenfold.data import arrays, frames, stamps
from tenfold.data.bands import Banded
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.errors import BadCall

_HERE = "synchronous"


def of(value: Any, columns: Sequence[str] | None, name: str) -> Source:
    """An array or a dataframe."""
    if hasattr(value, "chunks") and hasattr(value, "blocks"):
        if columns is not None:
            raise BadCall(f"columns={list(columns)!r}: {name} is one array; columns= is for dataframes")
        return DaskArray(value, name)
    if hasattr(value, "npartitions") and hasattr(value, "partitions") and getattr(value, "ndim", 0) == 2:
        return DaskFrame(value, columns, name)
    told = type(value).__name__
    frame = "frame" if hasattr(value, "to_frame") else "dataframe"
    raise BadCall(f"{name}: a {told} of Dask's; expected an array or a dataframe, such as {told.lower()}.to_{frame}()")


class _Computed(Banded):
    """What is common: bands that are computed. Pickled by value, because graphs hold functions of scripts."""

    _value: Any
    _mark: str

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_value": cloudpickle.dumps(self._value)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_value": cloudpickle.loads(state["_value"])})


class DaskArray(_Computed):
    """An array. Its name at Dask is a digest of how it is made."""

    def __init__(self, value: Any, name: str) -> None:
        arrays.check(name, value.shape, value.dtype)
        if any(math.isnan(length) for length in value.shape):
            raise BadCall(f"{name}: shape {value.shape} is not known; call its compute_chunk_sizes() first")
        super().__init__([0, *itertools.accumulate(value.chunks[0])])
        self._value, self._mark = value, value.name

    @property
    def sample_bytes(self) -> int:
        return int(math.prod(self._value.shape[1:]) * self._value.dtype.itemsize)

    def band(self, number: int) -> Rows:
        low, high = int(self._edges[number]), int(self._edges[number + 1])
        return np.asarray(self._value[low:high].compute(scheduler=_HERE))

    def describe(self) -> str:
        row = arrays.row_text(self._value.shape, self._value.dtype)
        return f"{self.length} rows of {row}, computed by Dask in {len(self._edges) - 1} chunks"


class DaskFrame(_Computed):
    """A dataframe. How long its partitions are has to be computed, once."""

    def __init__(self, value: Any, columns: Sequence[str] | None, name: str) -> None:
        wanted = chosen([str(column) for column in value.columns], columns, name, "columns")
        value = value.rename(columns={column: str(column) for column in value.columns})[wanted]
        lengths = value.map_partitions(len).compute(scheduler=_there())
        super().__init__([0, *itertools.accumulate(int(length) for length in lengths)])
        self._value, self._mark, self._columns = value, value._name, wanted

    @property
    def sample_bytes(self) -> int:
        return sum(getattr(kind, "itemsize", 64) for kind in self._value.dtypes)

    def band(self, number: int) -> Rows:
        frame = self._value.partitions[number].compute(scheduler=_HERE)
        return {column: frames.column(frame[column]) for column in self._columns}

    def describe(self) -> str:
        return (
            f"{self.length} rows of {', '.join(self._columns)}, computed by Dask in {len(self._edges) - 1} partitions"
        )


def _there() -> Any:
    """Where the caller's own Dask computes; threads where it asks for a client that is gone."""
    from dask.base import get_scheduler

    try:
        return get_scheduler()
    except RuntimeError:
        return "threads"
