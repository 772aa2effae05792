"""NumPy arrays: in memory, and mapped from a file.

An array in memory is sent to workers whole, once for each machine. One that is mapped travels as the file's name and a
place in it, and is known by the file's name, size and time; its bytes are read where they are used.
"""

from __future__ import annotations

import io
import math
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tenfold.data import stamps
from tenfold.data.source import Rows, Source
from tenfold.errors import BadCall, SampleUnreadable

Array = np.ndarray[Any, Any]

COPIED = 64 << 20  # bytes; above, memory counts more than the time of a copy
ALIGNED = 64  # bytes; where rows begin at a multiple of it, TensorFlow takes them as they are


class InMemory(Source):
    """An array that is here."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def length(self) -> int:
        return len(self._array)

    @property
    def sample_bytes(self) -> int:
        return _row_bytes(self._array.shape, self._array.dtype)

    @property
    def is_flat(self) -> bool:
        return True

    def read(self, start: int, stop: int) -> Rows:
        return np.array(self._array[start:stop])  # a copy: what a function does to it is not done to the caller's

    def view(self, start: int, stop: int) -> Rows:
        return self._array[start:stop]

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_array(self._array[start:stop])

    def describe(self) -> str:
        return f"{self.length} rows of {row_text(self._array.shape, self._array.dtype)} in memory"


class Mapped(Source):
    """An array in a file: raw memory, a .npy file, or a member of an .npz file that is not compressed."""

    def __init__(
        self, path: str, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        """`offset`: where in the file its first element is. With negative strides, that is not its lowest byte."""
        self._path = os.path.abspath(path)
        self._place = offset, dtype, shape, strides
        self._mark = stamps.of_texts(stamps.of_file(path), offset, dtype.str, dtype, shape, strides)
        self._spare: Array | None = None

    @property
    def form(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of a row."""
        _, dtype, shape, _ = self._place
        return shape[1:], dtype

    @property
    def length(self) -> int:
        return self._place[2][0]

    @property
    def sample_bytes(self) -> int:
        _, dtype, shape, _ = self._place
        return _row_bytes(shape, dtype)

    @property
    def is_flat(self) -> bool:
        _, dtype, shape, strides = self._place
        return strides == _in_a_row(shape, dtype)

    def read(self, start: int, stop: int) -> Rows:
        return self._read(start, stop, _raw)

    def _read(self, start: int, stop: int, raw: Callable[[int], Array]) -> Rows:
        offset, dtype, shape, strides = self._place
        stop = min(stop, self.length)
        if start >= stop or not self.sample_bytes or not self.is_flat:
            return np.array(self._map()[start:stop], order="C")
        room = _room((stop - start, *shape[1:]), dtype, raw)
        try:
            with open(self._path, "rb", buffering=0) as file:
                file.seek(offset + start * strides[0])
                _fill(file, room)
        except OSError as error:
            raise self._unreadable(error) from error
        return room

    def view(self, start: int, stop: int) -> Rows:
        """A copy, unless it is large: to have 16 MB mapped page by page takes twice as long as to copy them."""
        is_small = (stop - start) * self.sample_bytes <= COPIED
        return self._read(start, stop, self._again) if is_small else self._map()[start:stop]

    def _again(self, size: int) -> Array:
        """The memory of the last view, once nobody has it any more: it is in the processor's cache, and needs no pages.

        With new memory for each batch, a small model takes a tenth longer.
        """
        spare, self._spare = self._spare, None
        # Referred to here and by the call that asks; and where it is in use, by arrays that lie in it.
        if spare is None or len(spare) < size or sys.getrefcount(spare) > 2:
            spare = _raw(size)
        self._spare = spare
        return spare

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spare": None}

    def _map(self) -> Array:
        # Mapped for this only: a map has a descriptor, and there may be thousands of files.
        offset, dtype, shape, strides = self._place
        try:
            raw = np.memmap(self._path, np.uint8, mode="r")
            mapped: Array = np.ndarray(shape, dtype, buffer=raw, offset=offset, strides=strides)
        except (OSError, TypeError, ValueError) as error:  # beyond its end, to read would be the end of the process
            raise self._unreadable(error) from error
        return mapped

    def _unreadable(self, error: Exception) -> SampleUnreadable:
        return SampleUnreadable(f"{self._path}: cannot be read, or has become shorter: {error}")

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def describe(self) -> str:
        _, dtype, shape, _ = self._place
        return f"{self.length} rows of {row_text(shape, dtype)} in {self._path}"


def of_array(array: Array, name: str) -> Source:
    """For an array of the caller's."""
    if isinstance(array, np.ma.MaskedArray):
        raise BadCall(f"{name}: a masked array; fill the gaps first, such as array.filled(0)")
    check(name, array.shape, array.dtype, texts=array)
    found = _map_of(array)
    return found if found is not None else InMemory(np.asarray(array))


def check(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], texts: Array | None = None) -> None:
    """Refuse what has no rows, and Python objects, unless they are texts."""
    if len(shape) == 0:
        raise BadCall(f"{name}: a single value of type {dtype}; expected an array with at least one dimension")
    if not dtype.hasobject:
        return
    kinds = (str, bytes, type(None))
    if texts is None or dtype.names or not all(isinstance(one, kinds) for one in texts.flat):
        raise BadCall(
            f"{name}: an array of Python objects (dtype {dtype}), which could only be read with pickle; "
            "expected numbers or texts, such as array.astype(float)"
        )


def _map_of(array: Array) -> Mapped | None:
    """Where in a file an array lies; None for one that lies in memory."""
    whole: Any = array
    while isinstance(whole, np.ndarray) and not isinstance(whole, np.memmap):
        whole = whole.base
    name = getattr(whole, "filename", None)
    # Changes to a copy-on-write map are in no file.
    if name is None or whole._mmap is None or whole.mode not in ("r", "r+", "w+") or not os.path.exists(name):
        return None
    if whole.mode != "r":
        whole.flush()
    # NumPy keeps the first map's offset on every slice, so the place is found from the addresses.
    base = np.frombuffer(whole._mmap, np.uint8).__array_interface__["data"][0]
    page = whole.offset - whole.offset % mmap.ALLOCATIONGRANULARITY
    offset = page + array.__array_interface__["data"][0] - base
    return Mapped(str(name), offset, array.dtype, array.shape, array.strides)


def _in_a_row(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Strides of an array whose rows follow one another without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape)))


def _raw(size: int) -> Array:
    return np.empty(size, np.uint8)


def _room(shape: tuple[int, ...], dtype: np.dtype[Any], raw: Callable[[int], Array]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    memory = raw(size + ALIGNED)
    begin = -memory.__array_interface__["data"][0] % ALIGNED
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _fill(file: io.FileIO, room: Array) -> None:
    left = room.reshape(-1).view(np.uint8).data
    while left:
        count = file.readinto(left)
        if not count:
            raise OSError(f"it ends {len(left)} bytes too early")
        left = left[count:]


def _row_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape[1:]) * (dtype.itemsize + (48 if dtype.hasobject else 0))


def row_text(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """For people: "28 x 28 uint8"."""
    return f"{' x '.join(map(str, shape[1:]))} {dtype}".strip()
