"""Which pools there are. One that nobody uses is kept for a while, for the next `Parallel` of its shape."""

from __future__ import annotations

import atexit
import os
import threading

from tenfold.errors import WorkersUnavailable
from tenfold.joblib.pool import Pool
from tenfold.joblib.shape import Shape

KEPT = 2  # pools that nobody uses: programs change between two kinds of calls, hardly ever between three

_lock = threading.Lock()
_kept: list[Pool] = []  # the longest unused one first
_used: list[Pool] = []


def take(shape: Shape) -> Pool:
    """A pool of this shape, for one `Parallel`: one that was kept, or a new one."""
    with _lock:
        found = next((pool for pool in reversed(_kept) if pool.is_usable and pool.shape.fits(shape)), None)
        if found is not None:
            _kept.remove(found)
    found = found or Pool(shape, _forget)
    with _lock:
        _used.append(found)
    return found


def give(pool: Pool) -> None:
    """The `Parallel` is done. Workers that hold GPUs end, because others may be waiting for those."""
    pool.rest()
    with _lock:
        _used.remove(pool)
        _kept.append(pool)
        left = [pool for pool in _kept if pool.shape.gpus] or _kept[:-KEPT]
        _kept[:] = [pool for pool in _kept if pool not in left]
    for pool in left:
        pool.close(WorkersUnavailable("the workers have ended"))


def drop(pool: Pool) -> None:
    """Kill the workers of a `Parallel` that has failed, or that nobody waits for any more."""
    with _lock:
        _used.remove(pool)
    pool.close(WorkersUnavailable("the call of joblib.Parallel has ended"))


def shutdown() -> None:
    """End all workers of joblib now, and wait until they are gone. The next call has new ones."""
    with _lock:
        pools = [*_kept, *_used]
        _kept.clear()
    for pool in pools:
        pool.close(WorkersUnavailable("tenfold.joblib.shutdown() was called before this call was done"))
    for pool in pools:
        pool.wait()


def _forget(pool: Pool) -> bool:
    """Whether a pool that has been idle for long may end: not when somebody has just taken it."""
    with _lock:
        if pool not in _kept:
            return False
        _kept.remove(pool)
        return True


def _forget_all() -> None:
    """In a fork: the pools are the parent's, and their threads are not here."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()
    _used.clear()


atexit.register(shutdown)
os.register_at_fork(after_in_child=_forget_all)
