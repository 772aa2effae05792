"""In a worker: how many samples a function of batches is given at a time, where the caller does not say.

It is found on the first samples, once for a set: some sizes are tried, each larger than the last, and what comes of
that is thrown away. Larger batches are faster up to a point, and take more memory. Nothing that is kept may depend on
what a clock said, so a function whose rows depend on the others of their batch, or on random numbers, is not tuned.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy

from tenfold.data import stacking
from tenfold.data.form import batch_of, form_of
from tenfold.data.placing import Block
from tenfold.data.source import Rows, count
from tenfold.machine import memory
from tenfold.plan.batches import ENOUGH, NOISE, Tried, chosen, even, limit_of
from tenfold.work import here, seeds
from tenfold.work.settled import settle

BATCH = "batch"
"""The file in which a set's size is settled."""
FAILS = (Exception, SystemExit)
"""What may come of a sample: some libraries end the process where a file is not what they expect."""
GROWTH = 4
"""Times the last size: where one is no faster than a quarter of it, a call costs less than 2 % of what its rows do."""
_LEAST, _MOST, _SECONDS = 2, 4, 0.005
"""A size is tried so often, within so many seconds, and its best time counts: what else the machine does only adds to
it, and some functions are compiled for each new size."""
_ROUNDING = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Of the largest number, by the size of a float: sums of another order differ by less, and rows of others by more."""


def ladder(length: int) -> list[int]:
    """Which sizes are tried of so many samples, in order; the last is all of them."""
    found = [length]
    while found[0] > 1:
        found.insert(0, -(-found[0] // GROWTH))
    return found


def goes_on(tried: Sequence[Tried], size: int, limit: int) -> bool:
    """Whether `size` is worth trying after those: the last was faster than those before it, and short; it fits."""
    if not tried:
        return True
    *others, last = tried
    is_faster = all(last.speed * NOISE > one.speed for one in others)
    return is_faster and last.seconds < ENOUGH and last.memory * size / last.size <= limit


class Tuned:
    """The size for one function; every worker of a set goes by what the first one has found."""

    def __init__(self, function: Callable[[Any], Any], folder: Path) -> None:
        self._function = function
        self._path = folder / BATCH
        self._size: int | None = None

    def size(self, rows: Rows) -> int:
        """How many of these samples go together; all of them where that is not to be found out."""
        length = count(rows)
        if length == 1:
            return 1
        if self._size is None:
            self._size = self._settled(rows)
        return even(length, self._size) if self._size else length

    def _settled(self, rows: Rows) -> int:
        if self._path.exists():
            return int(self._path.read_text())
        limit = limit_of(here.here().memory)
        with seeds.restored(), here.aside():  # as if nobody had tried
            found = best_size(self._function, rows, limit)
        return int(settle(self._path, str(found))) if found is not None else 0


def best_size(function: Callable[[Any], Any], rows: Rows, limit: int) -> int | None:
    """How many of these samples a batch should have; 0 for all of them. None where the function fails on some."""
    tried: list[Tried] = []
    length = count(rows)
    for size in ladder(length):
        if not goes_on(tried, size, limit):
            break
        try:
            one, block = _try(function, rows, size, is_first=not tried)
            if tried and not _alike(block, _in_pieces(function, rows, size, tried[-1].size)):
                return 0
        except FAILS:  # whoever makes the rows says so
            return None
        tried.append(one)
    found = chosen(tried, limit)
    is_known = len(tried) > 1 or tried[0].memory * length > limit * tried[0].size  # what does not fit is cut anyway
    return found if is_known and found < length else 0


def _try(function: Callable[[Any], Any], rows: Rows, size: int, *, is_first: bool) -> tuple[Tried, Block]:
    if is_first:  # what is taken or made ready once is no matter of the size
        function(stacking.sliced(rows, 0, size))
    grown = memory.private(os.getpid())
    best, spent, weight = float("inf"), 0.0, 0
    for number in range(_MOST):
        batch = stacking.sliced(rows, 0, size)  # a copy: the function may change it
        weight = stacking.weight(batch)
        began = time.perf_counter()
        block = _block(function(batch))
        took = time.perf_counter() - began
        best, spent = min(best, took), spent + took
        if number + 1 >= _LEAST and spent > _SECONDS:
            break
    grown = max(0, memory.private(os.getpid()) - grown)
    return Tried(size, best, weight + sum(array.nbytes for array in block) + grown), block


def _in_pieces(function: Callable[[Any], Any], rows: Rows, size: int, step: int) -> Block:
    """What becomes of as many samples, given some at a time."""
    starts = range(0, size, step)
    blocks = [_block(function(stacking.sliced(rows, start, min(start + step, size)))) for start in starts]
    return [numpy.concatenate(columns) for columns in zip(*filter(None, blocks), strict=True)]


def _block(result: Any) -> Block:
    """As the function may not change it any more."""
    return [] if result is None else [array.copy() for array in batch_of(result, form_of(result, batched=True))]


def _alike(block: Block, other: Block) -> bool:
    """Whether these are the same rows, but for the rounding of floats."""
    return len(block) == len(other) and all(map(_is_alike, block, other))


def _is_alike(array: numpy.ndarray[Any, Any], other: numpy.ndarray[Any, Any]) -> bool:
    if array.dtype != other.dtype or array.shape != other.shape:
        return False
    if array.dtype.kind not in "fc" or not array.size:
        return bool((array == other).all())
    size = array.real.dtype.itemsize
    with numpy.errstate(all="ignore"):
        scale = numpy.abs(other[numpy.isfinite(other)]).max(initial=0)
        return numpy.allclose(array, other, 0, _ROUNDING.get(size, 1e-9) * float(scale), equal_nan=True)
