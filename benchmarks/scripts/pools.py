"""Runs one task for each item, all at once, each in a fresh worker of its own: the same for every library.

For the scripts startup_pools.py and concurrent_trainings.py. The libraries are imported only where they are used: the
script of one must not pay for the import of another.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEETING_LIMIT = 120.0  # seconds that the slowest worker may be behind the fastest
LOOK_EVERY = 0.005

Task = Callable[[Any], Any]


def run(library: str, task: Task, items: list[Any]) -> list[Any]:
    """Call `task` with each item in a pool of as many fresh workers, and close the pool."""
    return LIBRARIES[library](task, items)


def _tenfold(task: Task, items: list[Any]) -> list[Any]:
    import tenfold

    return list(tenfold.map(task, items, workers=len(items)))


def _joblib(task: Task, items: list[Any]) -> list[Any]:
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=len(items))(delayed(task)(item) for item in items))


def _loky(task: Task, items: list[Any]) -> list[Any]:
    """What joblib runs on, without its own pool of workers to reuse."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(len(items))
    found = list(executor.map(task, items, chunksize=1))
    executor.shutdown(wait=True, kill_workers=True)
    return found


def _multiprocessing(task: Task, items: list[Any]) -> list[Any]:
    with multiprocessing.get_context("spawn").Pool(len(items)) as pool:
        return pool.map(task, items, chunksize=1)


def _loop(task: Task, items: list[Any]) -> list[Any]:
    return [task(item) for item in items]


LIBRARIES: dict[str, Callable[[Task, list[Any]], list[Any]]] = {
    "tenfold": _tenfold,
    "joblib": _joblib,
    "loky": _loky,
    "multiprocessing": _multiprocessing,
    "loop": _loop,
}


def meet(folder: str, count: int) -> None:
    """In a task: wait until `count` processes are here. A worker that waits takes no second task, so all are apart."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    (place / str(os.getpid())).touch()
    deadline = time.monotonic() + MEETING_LIMIT
    while sum(1 for _ in place.iterdir()) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} workers did not meet in {folder} within {MEETING_LIMIT:g} s")
        time.sleep(LOOK_EVERY)
