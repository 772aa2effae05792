"""How many rows at a time? Found by trying some sizes: larger batches are faster up to a point, and take more memory.

What is decided is apart from what is measured, so that it can be tested with invented figures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from tenfold.machine import memory
from tenfold.models import nesting
from tenfold.models.model import Predict
from tenfold.models.nesting import Rows
from tenfold.plan.batches import ENOUGH, Tried, chosen, even

LEAST, MOST = 32, 8192
ANY = tuple(LEAST << step for step in range((MOST // LEAST).bit_length()))
COMPILED = (256, 1024, 2048, 4096)
"""Few, because each is a compilation."""
TRIED = 4096
"""Rows that are enough to find it with."""
CACHED = 8 << 20
"""Bytes of rows that stay in a processor's cache from when they are read until they are predicted. A trial does not see
that, because its rows lie still: there 4096 rows of 784 floats are faster than 2048, and in a whole file 9 % slower."""
WORTH = 1.2
"""How much faster the last size must have been than the one before, for a larger one that is not CACHED to be tried."""
_SECONDS = 0.05
_REPEATS = 3
"""A size is tried for so long, or so often, and its best time counts: what else the machine does only adds to it."""


def sizes(*, fixed: bool) -> tuple[int, ...]:
    """Which are tried, in order."""
    return COMPILED if fixed else ANY


def goes_on(tried: Sequence[Tried], size: int, limit: int | None) -> bool:
    """Whether `size` is worth trying after those: the last was no slower than those before it, and short; it fits."""
    if not tried:
        return True
    last = tried[-1]
    is_cached = last.rows * size / last.size <= CACHED
    if not is_cached and len(tried) > 1 and last.speed < tried[-2].speed * WORTH:
        return False
    fits = limit is None or last.memory * size / last.size <= limit
    return fits and last.seconds < ENOUGH and chosen(tried, limit) == last.size


def best_size(predict: Predict, rows: Rows, limit_bytes: int | None = None, *, changes_nothing: bool = False) -> int:
    """How many rows a batch should have at most, from some rows of the data, within `limit_bytes` of memory.

    What is tried are the batches that these rows would be cut into, so that none is compiled for the trial alone; more
    rows than there are, are not tried. Timings differ from run to run, so the answer may; what a model gives does not
    depend on it beyond the rounding of floats.
    """
    length = nesting.count(rows)
    own = _as_it_is if changes_nothing else nesting.copied  # these rows are still to be predicted
    tried: list[Tried] = []
    for size in sorted({even(length, size) for size in sizes(fixed=predict.fixed)}):
        if not goes_on(tried, size, limit_bytes):
            break
        tried.append(_try(predict, nesting.cut(rows, 0, size), size, own, first=not tried))
    found = chosen(tried, limit_bytes)
    return beyond(tried[-1], limit_bytes, fixed=predict.fixed) if found == length else found


def beyond(last: Tried, limit: int | None, *, fixed: bool) -> int:
    """Where the largest that could be tried was the best: the largest size that fits, for other rows may be more."""
    listed = [size for size in sizes(fixed=fixed) if limit is None or last.memory * size / last.size <= limit]
    return max([last.size, *listed])


def _as_it_is(rows: Rows) -> Rows:
    return rows


def _try(predict: Predict, batch: Rows, size: int, own: Callable[[Rows], Rows], *, first: bool) -> Tried:
    before = memory.private(os.getpid())
    predict(own(batch))  # compiles
    if first:  # what a framework takes once is no matter of the size
        before = memory.private(os.getpid())
    seconds, spent, outputs = float("inf"), 0.0, None
    for _ in range(_REPEATS):
        given = own(batch)
        began = time.perf_counter()
        outputs = predict(given)
        took = time.perf_counter() - began
        seconds, spent = min(seconds, took), spent + took
        if spent > _SECONDS:
            break
    grown = max(0, memory.private(os.getpid()) - before)
    rows_bytes = nesting.nbytes(batch)
    return Tried(size, seconds, rows_bytes + nesting.nbytes(outputs) + grown, rows_bytes)
