"""Calls on their way to workers: as parcels, with large arrays in files that every worker maps.

An array above `max_nbytes` is written once for each call of a `Parallel`, and workers see it as joblib has it: a NumPy
map in `mmap_mode`. A smaller one that comes again (the data of a grid search comes with every fit) is written, too,
the second time; workers see it as if it had been copied. Files lie in the pool's folder, which goes when the `Parallel`
is done; what is mapped then stays where it is mapped.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import joblib
import numpy
from joblib._memmapping_reducer import _get_backing_memmap, _reduce_memmap_backed, _WeakArrayKeyMap
from joblib.numpy_pickle import load_temporary_memmap

from tenfold.joblib import calling
from tenfold.joblib.calling import Call
from tenfold.work import parcel

SHARED_MEMORY = "/dev/shm"
ENOUGH_SHARED_MEMORY = 2e9  # bytes; containers have 64 MB, which one array would fill. joblib draws the line here, too
WORTH_A_FILE = 64 << 10  # bytes; from here on, mapping takes less time than copying


@dataclass(frozen=True, slots=True)
class _File:
    """An array that was sent."""

    path: str
    """Where it was written; empty where it was not, because it had come only once."""
    content: Any = None
    """What was written, mapped."""


class Sender:
    """Packs the calls of one pool. Used by the thread of the pool alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._most: int | None = None
        self._mode: str | None = None
        self._sent: Any = _WeakArrayKeyMap()
        self._ways: parcel.Ways = {numpy.ndarray: self._reduce, numpy.memmap: self._reduce}

    def begin(self, most: int | None, mode: str | None) -> None:
        """For the next call of a `Parallel`: arrays above `most` bytes are mapped in `mode`; None maps none."""
        self.clear()
        self._most = None if mode is None else most
        self._mode = mode

    def clear(self) -> None:
        """Remove what was written: the user may change an array before the next call."""
        self._sent = _WeakArrayKeyMap()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pack(self, calls: list[Call]) -> parcel.Sealed:
        try:
            return parcel.Sealed(parcel.pack([*map(tuple, calls)], ways=self._ways).to_bytes())
        except Exception as error:
            text = f"Could not pickle the task to send to the workers: {type(error).__name__}: {error}"
            raise PicklingError(text) from error

    def _reduce(self, array: Any) -> Any:
        backing = _get_backing_memmap(array)
        if isinstance(backing, numpy.memmap):
            return _reduce_memmap_backed(array, backing)
        if self._most is not None and array.nbytes > self._most and not array.dtype.hasobject:
            return load_temporary_memmap, (self._dumped(array), self._mode, False)
        path = self._written(array) if self._most is not None and _is_worth_a_file(array) else ""
        if path:
            return calling.mapped, (path, array.dtype, array.shape, "C" if array.flags.c_contiguous else "F")
        return array.__reduce_ex__(parcel.PROTOCOL)

    def _dumped(self, array: Any) -> str:
        """The file of a large array, as joblib writes it."""
        found = self._file(array)
        if found is None:
            found = _File(self._new_path())
            joblib.dump(array, found.path)
            self._sent.set(array, found)
        return found.path

    def _written(self, array: Any) -> str:
        """The file of an array that has come before, with what it holds now; empty where it has not come yet."""
        found = self._file(array)
        if found is None:
            self._sent.set(array, _File(""))
            return ""
        flat = array.reshape(-1, order="A").view(numpy.uint8)
        # Who fills one array again and again must not get what was in it the last time.
        if found.path and numpy.array_equal(found.content, flat):
            return found.path
        try:
            path = self._new_path()
            flat.tofile(path)
        except OSError:  # the disk is full; it can still be copied
            return ""
        self._sent.set(array, _File(path, numpy.memmap(path, numpy.uint8, mode="r")))
        return path

    def _file(self, array: Any) -> _File | None:
        try:
            found: _File = self._sent.get(array)
        except KeyError:
            return None
        return found

    def _new_path(self) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        return os.path.join(self._folder, f"{uuid.uuid4().hex}.pkl")


def _is_worth_a_file(array: Any) -> bool:
    is_whole = array.flags.c_contiguous or array.flags.f_contiguous
    return bool(array.nbytes >= WORTH_A_FILE and array.dtype.kind in "biufc" and is_whole)


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
