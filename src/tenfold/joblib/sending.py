"""Calls on their way to workers: as parcels, with large arrays in files that every worker maps.

An array above `max_nbytes` is written once for each call of a `Parallel`, and workers see it as joblib has it: a NumPy
map in `mmap_mode`. A smaller one that comes again (the data of a grid search comes with every fit) is written, too, at
the latest the second time; workers see it as if it had been copied. A file goes when nobody needs it: neither the array
is there any more, nor a call that it was sent with. The pool's folder goes when the `Parallel` is done; what is mapped
then stays where it is mapped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from pickle import PicklingError
from typing import Any, Literal

import joblib
import numpy
from joblib._memmapping_reducer import _get_backing_memmap, _reduce_memmap_backed, _WeakArrayKeyMap
from joblib.numpy_pickle import load_temporary_memmap

from tenfold.joblib import calling
from tenfold.joblib.calling import Call
from tenfold.work import parcel

SHARED_MEMORY = "/dev/shm"
ENOUGH_SHARED_MEMORY = 2e9  # bytes; containers have 64 MB, which one array would fill. joblib draws the line here, too
WORTH_A_FILE = 64 << 10  # bytes; from here on, mapping a file takes less time than copying
WORTH_A_FILE_AT_ONCE = 256 << 10  # bytes; from here on, writing the file and mapping it takes less


class _File:
    """What an array held when it was sent: there for as long as the array, or a call that it was sent with."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.content: Any = None
        """The same, mapped."""
        self._owner = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._owner:  # not in a fork
            with contextlib.suppress(OSError):
                os.unlink(self.path)


class Sender:
    """Packs the calls of one pool. Used by the thread of the pool alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._most: int | None = None
        self._mode: str | None = None
        self._sent: Any = _WeakArrayKeyMap()  # files; None for an array that has come once, and was copied
        self._named: list[object] = []  # in what is being packed
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

    def pack(self, calls: list[Call]) -> tuple[parcel.Sealed, list[object]]:
        """The calls in a parcel, and what must be kept until they are done."""
        named: list[object] = []
        self._named = named
        try:
            return parcel.Sealed(parcel.pack([*map(tuple, calls)], ways=self._ways).to_bytes()), named
        except Exception as error:
            text = f"Could not pickle the task to send to the workers: {type(error).__name__}: {error}"
            raise PicklingError(text) from error
        finally:
            self._named = []

    def _reduce(self, array: Any) -> Any:
        backing = _get_backing_memmap(array)
        if isinstance(backing, numpy.memmap):
            return _reduce_memmap_backed(array, backing)
        if self._most is not None and array.nbytes > self._most and not array.dtype.hasobject:
            return load_temporary_memmap, (self._dumped(array), self._mode, False)
        path = self._written(array) if self._most is not None and _is_worth_a_file(array) else ""
        if path:
            return calling.mapped, (path, array.dtype, array.shape, _order(array))
        return array.__reduce_ex__(parcel.PROTOCOL)

    def _dumped(self, array: Any) -> str:
        """The file of a large array, as joblib writes it."""
        try:
            found = self._sent.get(array)
        except KeyError:
            found = _File(self._new_path())
            joblib.dump(array, found.path)
            self._sent.set(array, found)
        self._named.append(found)
        return str(found.path)

    def _written(self, array: Any) -> str:
        """The file of an array with what it holds now; empty where copying it takes less."""
        try:
            found = self._sent.get(array)
        except KeyError:
            if array.nbytes < WORTH_A_FILE_AT_ONCE:
                self._sent.set(array, None)
                return ""
            found = None
        bits = _bits(array)
        try:
            # Who fills one array again and again must not get what was in it the last time.
            if found is None or not numpy.array_equal(self._content(found, bits), bits):
                found = _File(self._new_path())
                bits.ravel(order="A").tofile(found.path)
                self._sent.set(array, found)
        except OSError:  # the disk is full, or too many files are open; it can still be copied
            return ""
        self._named.append(found)
        return str(found.path)

    @staticmethod
    def _content(file: _File, bits: Any) -> Any:
        if file.content is None:  # a map holds a descriptor, and most arrays do not come again
            file.content = numpy.memmap(file.path, bits.dtype, "r", 0, bits.shape, _order(bits))
        return file.content

    def _new_path(self) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        return os.path.join(self._folder, f"{uuid.uuid4().hex}.pkl")


def _is_worth_a_file(array: Any) -> bool:
    return bool(array.nbytes >= WORTH_A_FILE and array.dtype.kind in "biufc")


def _bits(array: Any) -> Any:
    """Its content as whole numbers, each of which is equal to itself, as not every float is."""
    if array.itemsize <= 8:
        return array.view(f"u{array.itemsize}")
    return array.ravel(order="A").view(numpy.uint64)  # two and more for each


def _order(array: Any) -> Literal["C", "F"]:
    """How its copy is laid out in a file; of a part of a larger array, as pickle would lay it out."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


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
