"""Which pools there are. One that nobody uses is kept for a while, for the next `Parallel` of its shape."""

from __future__ import annotations

import atexit
import os
import threading

from tenfold.errors import WorkersUnavailable
from tenfold.joblib.pool import Pool
from tenfold.joblib.shape import Shape

KEPT = 2  # pools that nobody uses: programs change between two kinds of calls, hardly ever between three

_lock = threading.RLock()  # the garbage collector may end a generator, and so a call, anywhere
_kept: list[Pool] = []  # the longest unused one first
_used: list[Pool] = []
_ending: list[Pool] = []  # told to end, and perhaps not gone yet


def take(shape: Shape) -> Pool:
    """A pool of this shape, for one `Parallel`: one that was kept, or a new one."""
    with _lock:
        found = next((pool for pool in reversed(_kept) if pool.is_usable and pool.shape.fits(shape)), None)
        if found is not None:
            _kept.remove(found)
    found = found or Pool(shape, _may_end)
    with _lock:
        _used.append(found)
    return found


def give(pool: Pool) -> None:
    """The `Parallel` is done. Workers that hold GPUs end, because others may be waiting for those."""
    pool.rest()
    with _lock:
        if pool not in _used:
            return  # it is another process's
        _used.remove(pool)
        _kept.append(pool)
        surplus = _kept[:-KEPT] if pool.is_usable and not pool.shape.gpus else [pool]
        _kept[:] = [pool for pool in _kept if pool not in surplus]
    _end(surplus, "the workers have ended")


def drop(pool: Pool) -> None:
    """Kill the workers of a `Parallel` that has failed, or that nobody waits for any more."""
    with _lock:
        if pool not in _used:
            return
        _used.remove(pool)
    _end([pool], "the call of joblib.Parallel has ended")


def shutdown() -> None:
    """End all workers of joblib now, and wait until they are gone. The next call has new ones."""
    with _lock:
        pools = [*_kept, *_used]
        _kept.clear()
    _end(pools, "tenfold.joblib.shutdown() was called before this call was done")
    with _lock:
        ending = list(_ending)
    for pool in ending:
        pool.wait()


def _end(pools: list[Pool], why: str) -> None:
    with _lock:
        _ending[:] = [pool for pool in _ending if not pool.is_gone] + pools
    for pool in pools:
        pool.close(WorkersUnavailable(why))


def _may_end(pool: Pool) -> bool:
    """Whether a pool that has been idle for long may end: not when somebody has just taken it."""
    with _lock:
        if pool not in _kept:
            return False
        _kept.remove(pool)
        _ending.append(pool)
        return True


def _forget_all() -> None:
    """In a fork: the pools are the parent's, and their threads are not here."""
    global _lock
    _lock = threading.RLock()
    for pools in (_kept, _used, _ending):
        pools.clear()


atexit.register(shutdown)
os.register_at_fork(after_in_child=_forget_all)
