"""Files that NumPy writes: `.npy`, and `.npz` with several arrays in it. Never with pickle.

A `.npy` file is mapped, and so is each member of an `.npz` file that `numpy.savez` has written. Members that
`numpy.savez_compressed` has written cannot be read in slices: a process loads each of them whole, once.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from tenfold.data import arrays, stamps
from tenfold.data.arrays import Mapped
from tenfold.data.naming import chosen
from tenfold.data.source import Rows, Source
from tenfold.data.together import Together
from tenfold.errors import BadCall, SampleUnreadable

_LOCAL = struct.Struct("<4s22xHH")  # of a member's own header in a zip file: its mark, and how long two names are


def npy(path: str, name: str) -> Mapped:
    """The array of a .npy file."""
    with open(path, "rb") as file:
        return _mapped(path, file, 0, os.path.getsize(path), f"{name}={path!r}")


def npz(path: str, columns: Sequence[str] | None, name: str) -> Source:
    """The arrays of an .npz file, by name."""
    told = f"{name}={path!r}"
    try:
        with zipfile.ZipFile(path) as members:
            found = {info.filename.removesuffix(".npy"): info for info in members.infolist()}
            wanted = chosen(found, columns, told, "arrays")
            return Together({key: _member(path, members, found[key], f"{told}[{key!r}]") for key in wanted}, told)
    except zipfile.BadZipFile as error:
        raise BadCall(f"{told}: not an .npz file, or one that is cut off ({error})") from error


def _member(path: str, members: zipfile.ZipFile, info: zipfile.ZipInfo, told: str) -> Source:
    if info.compress_type != zipfile.ZIP_STORED:
        with members.open(info) as file:
            shape, dtype, _ = _header(file, told)
        return Compressed(path, info.filename, shape, dtype)
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        _, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        start = info.header_offset + _LOCAL.size + name + extra
        file.seek(start)
        return _mapped(path, file, start, start + info.file_size, told)


def _mapped(path: str, file: IO[bytes], start: int, end: int, told: str) -> Mapped:
    shape, dtype, fortran = _header(file, told)
    offset = file.tell()
    if offset + math.prod(shape) * dtype.itemsize > end:
        wanted, there = math.prod(shape) * dtype.itemsize, end - offset
        raise BadCall(f"{told}: cut off; its header speaks of {wanted} bytes, and there are {there}")
    order = range(len(shape)) if fortran else reversed(range(len(shape)))
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return Mapped(path, offset, dtype, shape, tuple(strides))


def _header(file: IO[bytes], told: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise BadCall(f"{told}: not an array of NumPy's ({error}); expected what numpy.save has written") from error
    arrays.check(told, shape, dtype)
    return shape, dtype, fortran


class Compressed(Source):
    """A member of an .npz file that has to be loaded whole."""

    def __init__(self, path: str, member: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._member = os.path.abspath(path), member
        self._shape, self._dtype = shape, dtype
        self._mark = stamps.of_texts(stamps.of_file(path), member)
        self._loaded: np.ndarray[Any, Any] | None = None

    @property
    def length(self) -> int:
        return self._shape[0]

    @property
    def sample_bytes(self) -> int:
        return math.prod(self._shape[1:]) * self._dtype.itemsize

    def read(self, start: int, stop: int) -> Rows:
        if self._loaded is None:
            try:
                with zipfile.ZipFile(self._path) as members, members.open(self._member) as file:
                    self._loaded = np.lib.format.read_array(file, allow_pickle=False)
            except (zipfile.BadZipFile, zipfile.zlib.error, ValueError) as error:  # type: ignore[attr-defined]
                raise SampleUnreadable(f"{self._path}: {self._member} cannot be unpacked: {error}") from error
        return np.array(self._loaded[start:stop])

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def describe(self) -> str:
        row = arrays.row_text(self._shape, self._dtype)
        return f"{self.length} rows of {row} in {self._path}, compressed: each process loads all of them, once"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}
