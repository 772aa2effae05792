"""Weights in memory that all workers of a machine share, and add to one after the other; no process serves them.

There are two copies. The next weights are written beside those that count, with the number of the batch that they come
from and its loss; then one counter says that they count. So a worker that is killed at any moment has either added all
of its step or nothing of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy

_FREE = -1  # nobody has taken this batch


class Weights:
    """Weights that several processes add to, the sums of an epoch, and who does which of its batches."""

    def __init__(self, path: Path, size: int, batches: int, workers: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        sizes = {"head": 24, "claims": 4 * batches, "steps": 8 * workers, "done": 2 * batches, "runs": 2 * size * 4}
        starts, length = {}, 0
        for name, count in sizes.items():
            starts[name] = length
            length += -(-count // 64) * 64
        os.ftruncate(self._file, length)
        self._memory = memory = mmap.mmap(self._file, length)
        self._head = numpy.frombuffer(
            memory, numpy.int64, 3, starts["head"]
        )  # version, epoch + 1, version at its begin
        self.claims = numpy.frombuffer(memory, numpy.int32, batches, starts["claims"])
        """Which worker has taken a batch of this epoch."""
        self.steps = numpy.frombuffer(memory, numpy.int64, workers, starts["steps"])
        """How many steps each worker has added."""
        self._done = numpy.frombuffer(memory, numpy.uint8, 2 * batches, starts["done"]).reshape(2, batches)
        self._runs = numpy.frombuffer(memory, numpy.float32, 2 * size, starts["runs"]).reshape(2, size)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """By one process at a time; the kernel lets go of it when that process is killed."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @property
    def version(self) -> int:
        """How often they were changed."""
        return int(self._head[0])

    @property
    def added(self) -> int:
        """Steps of this epoch that are in them."""
        return int(self._head[0] - self._head[2])

    def slowest(self, workers: list[int]) -> int:
        """The steps of the worker that has added fewest; one for which no batch is left keeps nobody waiting."""
        return int(self.steps[workers].min()) if (self.claims == _FREE).any() else int(self.steps.max())

    @property
    def run(self) -> numpy.ndarray:
        """What counts now: weights, then sums. To be read while it is held, or where a torn copy does no harm."""
        return self._runs[self.version % 2]  # type: ignore[no-any-return]

    @property
    def done(self) -> numpy.ndarray:
        """Which batches of this epoch are in it."""
        return self._done[self.version % 2]  # type: ignore[no-any-return]

    def add(self, change: numpy.ndarray, batch: int, worker: int) -> None:
        """What one step has changed; held by the caller."""
        now, following = self.version % 2, (self.version + 1) % 2
        numpy.add(self._runs[now], change, out=self._runs[following])
        self._done[following] = self._done[now]
        self._done[following, batch] = 1
        self._head[0] += 1  # from here on it counts
        self.steps[worker] += 1

    def put(self, weights: numpy.ndarray, done: int) -> None:
        """Other weights, with sums at zero, and the first batches of the epoch done already."""
        following = (self.version + 1) % 2
        self._runs[following] = 0
        self._runs[following, : len(weights)] = weights
        self._done[following] = 0
        self._done[following, :done] = 1
        self.claims[:] = _FREE
        self._head[0] += 1

    def begin(self, epoch: int, weights: numpy.ndarray) -> None:
        """Have these weights, sums of zero, and all batches of this epoch to do; unless that was begun already."""
        if int(self._head[1]) == epoch + 1:
            self.claims[self.done == 0] = _FREE  # those who had taken them are gone, or begin again
        else:
            following = (self.version + 1) % 2
            self._runs[following] = 0
            self._runs[following, : len(weights)] = weights
            self._done[following] = 0
            self.claims[:] = _FREE
            self._head[1] = 0  # who is killed between these lines has begun nothing
            self._head[0] += 1
            self._head[2] = self._head[0]
            self._head[1] = epoch + 1
        self.steps[:] = 0

    def take(self, worker: int) -> int | None:
        """The next batch that nobody has; None where there is none."""
        free = numpy.flatnonzero(self.claims == _FREE)
        if not len(free):
            return None
        self.claims[free[0]] = worker
        return int(free[0])

    def close(self) -> None:
        os.close(self._file)
