"""In the caller: Ray's actors whose call is over, kept for a moment."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tenfold.errors import ClusterLost

COUNTED_WITHIN = 1.0  # seconds after which Ray tells that an actor's GPUs are free again

Shape = tuple[str, float, float]
"""Of an actor: its node, CPUs and GPUs."""


class Idle:
    """Actors whose call is over, kept for a moment: a new one takes Ray more than half a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._actors: dict[Shape, Any] = {}
        self._wanted: Counter[str] = Counter()
        self.freed = -math.inf
        """When an actor with GPUs was last ended."""

    def just_freed(self) -> bool:
        """Whether Ray may not have counted yet what was given back."""
        return time.monotonic() - self.freed < COUNTED_WITHIN

    @contextlib.contextmanager
    def wanted(self, name: str) -> Iterator[None]:
        """A call waits for room on this node: nobody is kept there meanwhile."""
        with self._lock:
            self._wanted[name] += 1
            kept = [self._actors.pop(shape) for shape in list(self._actors) if shape[0] == name]
        for actor in kept:
            kill(actor)
        try:
            yield
        finally:
            with self._lock:
                self._wanted[name] -= 1

    def take(self, shape: Shape) -> Any | None:
        """One of this shape, or None."""
        with self._lock:
            return self._actors.pop(shape, None)

    def put(self, shape: Shape, actor: Any) -> None:
        with self._lock:
            gone = actor if self._wanted[shape[0]] else self._actors.get(shape)
            if gone is not actor:
                self._actors[shape] = actor
        if gone is not None:
            kill(gone)
        if gone is actor:
            return
        timer = threading.Timer(self._seconds, self._expire, (shape, actor))
        timer.daemon = True
        timer.start()

    def clear(self) -> None:
        with self._lock:
            self._actors.clear()

    def cpus(self, name: str) -> float:
        """What they hold on a node: as good as free."""
        with self._lock:
            return sum(cpus for node, cpus, _ in self._actors if node == name)

    def _expire(self, shape: Shape, actor: Any) -> None:
        with self._lock:
            if self._actors.get(shape) is not actor:
                return
            del self._actors[shape]
        kill(actor)


def kill(actor: Any) -> None:
    with contextlib.suppress(Exception):  # gone, or the cluster is
        joined().kill(actor)


def joined() -> Any:
    """Ray, where this process is in a cluster; otherwise many of its functions would start one by themselves."""
    import ray

    if not ray.is_initialized():
        raise ClusterLost("this process has left its Ray cluster")
    return ray
