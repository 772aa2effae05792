"""Zarr: arrays, and groups of arrays by name."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenfold.data import arrays, stamps
from tenfold.data.bands import Chunked
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.data.together import Together
from tenfold.errors import BadCall, SampleUnreadable
from tenfold.machine.installed import imported


def library() -> Any:
    """Zarr; a clear error where it is not installed."""
    return imported("zarr", "Zarr, which this source needs,", "data")


def at(path: str, columns: Sequence[str] | None, name: str) -> Source:
    """What is stored in a folder."""
    told = f"{name}={path!r}"
    zarr = library()
    try:
        found = zarr.open(path, mode="r")
    except Exception as error:
        raise BadCall(f"{told}: Zarr cannot open it ({error}); expected a Zarr array or group") from error
    return of(found, columns, told)


def of(value: Any, columns: Sequence[str] | None, told: str) -> Source:
    """An array or a group that is open."""
    zarr = library()
    if isinstance(value, zarr.Array):
        if columns is not None:
            raise BadCall(f"columns={list(columns)!r}: {told} is one array; columns= is for groups")
        return ZarrArray(value, told)
    members = {key: member for key, member in value.members(max_depth=None) if isinstance(member, zarr.Array)}
    wanted = chosen(sorted(members), columns, told, "arrays")
    return Together({key: ZarrArray(members[key], f"{told}[{key!r}]") for key in wanted}, told)


class ZarrArray(Chunked):
    """An array in a store. One in a folder is opened by its path; another store travels itself, if it can."""

    def __init__(self, array: Any, told: str) -> None:
        arrays.check(told, array.shape, array.dtype)
        super().__init__(array.shape[0], (getattr(array, "shards", None) or array.chunks)[0])
        self._shape, self._dtype = array.shape, array.dtype
        self._path = _folder(array)
        self._mark = _mark(self._path) if self._path else None
        self._told = self._path or str(array.store_path)
        self._array = array

    @property
    def sample_bytes(self) -> int:
        return int(math.prod(self._shape[1:]) * self._dtype.itemsize)

    def slice(self, start: int, stop: int) -> Rows:
        if self._array is None:
            self._array = library().open_array(self._path, mode="r")
        try:
            return np.asarray(self._array[start:stop])
        except Exception as error:
            raise SampleUnreadable(f"{self._told}: rows {start} to {stop} cannot be read: {error}") from error

    def stamp(self, start: int, stop: int) -> str:
        if self._mark is None:  # a store without files: its content is what is known
            return stamps.of_array(self.read(start, stop))
        return stamps.of_texts(self._mark, start, stop)

    def describe(self) -> str:
        return f"{self.length} rows of {arrays.row_text(self._shape, self._dtype)} in {self._told}"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_array": None if self._path else self._array}


def _folder(array: Any) -> str | None:
    root = getattr(array.store, "root", None)
    if not isinstance(array.store, library().storage.LocalStore) or root is None:
        return None
    return os.path.abspath(os.path.join(str(root), str(array.path)))


def _mark(folder: str) -> str:
    """Of all files below it: chunks are files, and are written anew when they change."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            facts = os.stat(os.path.join(parent, name))
            found.append((os.path.relpath(os.path.join(parent, name), folder), facts.st_size, facts.st_mtime_ns))
    return stamps.of_texts(os.path.basename(folder), *sorted(found))
