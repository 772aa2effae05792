"""Calls on their way to workers: as parcels, with large arrays in files that every worker maps.

An array above `max_nbytes` is written once for each call of a `Parallel`, however many calls take it. Its file lies in
the pool's folder, which goes when the `Parallel` is done; a file that is still mapped then stays where it is mapped.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pickle import PicklingError
from typing import Any

import joblib
import numpy
from joblib._memmapping_reducer import _get_backing_memmap, _reduce_memmap_backed, _WeakArrayKeyMap
from joblib.numpy_pickle import load_temporary_memmap

from tenfold.joblib.calling import Call
from tenfold.work import parcel

SHARED_MEMORY = "/dev/shm"
ENOUGH_SHARED_MEMORY = 2e9  # bytes; containers have 64 MB, and an array would fill it. joblib draws the line here, too


class Sender:
    """Packs the calls of one pool. Used by the thread of the pool alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._largest: int | None = None
        self._mode: str | None = None
        self._written: Any = _WeakArrayKeyMap()
        self._ways: parcel.Ways = {numpy.ndarray: self._reduce, numpy.memmap: self._reduce}

    def begin(self, largest: int | None, mode: str | None) -> None:
        """For the next call of a `Parallel`: arrays above `largest` bytes are mapped in `mode`; None maps none."""
        self.clear()
        self._largest = None if mode is None else largest
        self._mode = mode

    def clear(self) -> None:
        """Remove what was written: the user may change an array before the next call."""
        self._written = _WeakArrayKeyMap()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pack(self, calls: list[Call]) -> parcel.Sealed:
        try:
            return parcel.Sealed(parcel.pack(calls, ways=self._ways).to_bytes())
        except Exception as error:
            text = f"Could not pickle the task to send to the workers: {type(error).__name__}: {error}"
            raise PicklingError(text) from error

    def _reduce(self, array: Any) -> Any:
        backing = _get_backing_memmap(array)
        if isinstance(backing, numpy.memmap):
            return _reduce_memmap_backed(array, backing)
        if self._largest is None or array.nbytes <= self._largest or array.dtype.hasobject:
            return array.__reduce_ex__(parcel.PROTOCOL)
        return load_temporary_memmap, (self._file(array), self._mode, False)

    def _file(self, array: Any) -> str:
        try:
            found: str = self._written.get(array)
        except KeyError:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            found = os.path.join(self._folder, f"{uuid.uuid4().hex}.pkl")
            joblib.dump(array, found)
            self._written.set(array, found)
        return found


def root(wanted: str | None) -> str:
    """Where files for workers are: as asked, as JOBLIB_TEMP_FOLDER says, in shared memory, or with temporary files."""
    chosen = wanted or os.environ.get("JOBLIB_TEMP_FOLDER")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        found = os.statvfs(SHARED_MEMORY)
        if found.f_bsize * found.f_bavail > ENOUGH_SHARED_MEMORY:
            return SHARED_MEMORY
    return tempfile.gettempdir()
