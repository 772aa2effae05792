"""NumPy memmaps travel as their file's name: a worker maps the same file, and the page cache is shared."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from typing import Any


def reducers() -> dict[type, Callable[[Any], Any]]:
    numpy = sys.modules.get("numpy")
    return {numpy.memmap: _reduce} if numpy is not None else {}


def _reduce(array: Any) -> Any:
    import numpy

    name = getattr(array, "filename", None)
    # A copy-on-write map may hold changes that are in no file; a view made by arithmetic has no map at all.
    if name is None or array._mmap is None or array.mode not in ("r", "r+") or not os.path.exists(name):
        return numpy.array(array, copy=True, subok=False).__reduce_ex__(5)
    if array.mode == "r+":
        array.flush()
    whole = numpy.frombuffer(array._mmap, numpy.uint8)
    # numpy keeps the first map's offset on every slice, so the place is found from the addresses.
    bounds = numpy.lib.array_utils.byte_bounds if hasattr(numpy.lib, "array_utils") else getattr(numpy, "byte_bounds")  # noqa: B009  # NumPy 1
    low, high = bounds(array)
    base = whole.__array_interface__["data"][0]
    page = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    first = array.__array_interface__["data"][0] - low
    return _rebuild, (str(name), page + low - base, high - low, array.dtype, array.shape, array.strides, first)


def _rebuild(
    name: str, offset: int, length: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], first: int
) -> Any:
    import numpy

    if length == 0:
        return numpy.empty(shape, dtype)
    raw = numpy.memmap(name, numpy.uint8, mode="r", offset=offset, shape=(length,))
    return numpy.ndarray(shape, dtype, buffer=raw, offset=first, strides=strides)
