"""HDF5: the datasets of a file, by name. The file is open only while it is read, so that others may write it."""

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
    """h5py; a clear error where it is not installed."""
    return imported("h5py", "h5py, which this source needs,", "data")


def at(path: str, columns: Sequence[str] | None, name: str) -> Source:
    """The datasets of a file."""
    told = f"{name}={path!r}"
    h5py = library()
    try:
        with h5py.File(path, "r") as file:
            found: dict[str, Any] = {}
            file.visititems(lambda key, one: found.update({key: one}) if isinstance(one, h5py.Dataset) else None)
            rows = {key: one for key, one in found.items() if one.ndim}
            wanted = chosen(rows if columns is None else found, columns, told, "datasets")
            return Together({key: Hdf5Dataset(path, found[key], f"{told}[{key!r}]") for key in wanted}, told)
    except OSError as error:
        raise BadCall(f"{told}: HDF5 cannot open it ({error}); expected an HDF5 file") from error


def of(dataset: Any, name: str) -> Source:
    """A dataset that the caller has opened."""
    if dataset.file.mode != "r":
        told = f"{dataset.file.filename!r} is open for writing (mode {dataset.file.mode!r})"
        raise BadCall(f"{name}: {told}, and workers could not open it; close it and give its path")
    return Hdf5Dataset(dataset.file.filename, dataset, name)


class Hdf5Dataset(Chunked):
    """A dataset of a file."""

    def __init__(self, path: str, dataset: Any, told: str) -> None:
        self._texts = library().check_string_dtype(dataset.dtype) is not None
        arrays.check(told, dataset.shape, np.dtype("S1") if self._texts else dataset.dtype)
        super().__init__(dataset.shape[0], dataset.chunks[0] if dataset.chunks else None)
        self._path, self._key = os.path.abspath(path), dataset.name
        self._shape, self._dtype = dataset.shape, dataset.dtype
        self._mark = stamps.of_texts(stamps.of_file(path), dataset.name)

    @property
    def sample_bytes(self) -> int:
        return int(math.prod(self._shape[1:]) * (48 if self._texts else self._dtype.itemsize))

    def slice(self, start: int, stop: int) -> Rows:
        try:
            with library().File(self._path, "r") as file:
                dataset = file[self._key]
                return np.asarray((dataset.asstr() if self._texts else dataset)[start:stop])
        except Exception as error:
            told = f"{self._path}: rows {start} to {stop} of {self._key}"
            raise SampleUnreadable(f"{told} cannot be read: {error}") from error

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def describe(self) -> str:
        return f"{self.length} rows of {arrays.row_text(self._shape, self._dtype)} in {self._path}, {self._key}"
