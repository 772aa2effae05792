"""On a Dask worker: a task that holds a resource, so that Dask gives it to nobody else, until it is let go."""

from __future__ import annotations

import asyncio
import threading

LOOK_EVERY = 2.0  # seconds

_holding: dict[str, tuple[threading.Event, threading.Event]] = {}


def _marks(key: str) -> tuple[threading.Event, threading.Event]:
    """Whether it is held, and whether it may go."""
    return _holding.setdefault(key, (threading.Event(), threading.Event()))


def hold(key: str) -> None:
    """The task: until it is let go, or nobody wants it any more because the caller is gone."""
    from distributed import get_worker, secede

    held, done = _marks(key)
    tasks = get_worker().state.tasks
    secede()  # takes no thread of the worker, only the resource
    held.set()
    while not done.wait(LOOK_EVERY):
        if getattr(tasks.get(key), "state", "") not in ("executing", "long-running"):
            break
    _holding.pop(key, None)


async def is_held(key: str, seconds: float) -> bool:
    """Whether the task has begun, and so has the resource, within so many seconds."""
    held, _ = _marks(key)
    return await asyncio.get_running_loop().run_in_executor(None, held.wait, seconds)


def let_go(key: str) -> None:
    """End the task."""
    _marks(key)[1].set()
