"""Weights that several workers add to, one after the other: the contract, and its member for workers of one machine.

That one is memory which they share; no process serves it. There are two copies. The next weights are written beside
those that count, with the number of the batch that they come from and its loss; then one counter says that they count.
So a worker that is killed at any moment has either added all of its step or nothing of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy

FREE = -1
"""In the place of a worker: nobody has taken this batch."""


class Weights(ABC):
    """Weights, the sums of an epoch behind them, and who does which batch of that epoch: one worker's view.

    Used by one thread, for one epoch; what they hold outlives it. Only the first of the workers begins, and nobody
    takes a batch before that. A worker that is killed has added all of a step or nothing of it, on all of them.
    Averages among the weights are not added up, or those of n workers would overshoot n times: the last one's count.
    """

    @abstractmethod
    def begin(self, epoch: int, weights: numpy.ndarray, done: numpy.ndarray | None = None) -> None:
        """Have these weights, sums of zero where none are behind them, and all batches of this epoch to do that are not
        flagged as done.

        Where that was begun already, it goes on: batches that were taken and not finished can be taken again.
        """

    @abstractmethod
    def take(self, into: numpy.ndarray) -> int | None:
        """The next batch that nobody has, None where there is none; weights and sums as they are now are copied."""

    @abstractmethod
    def add(self, change: numpy.ndarray, batch: int) -> None:
        """What a step on that batch has changed; of averages, their new values."""

    @abstractmethod
    def ahead(self, workers: Sequence[int]) -> int:
        """How many steps this worker has added more than the slowest of these; 0 where no batch is left to take."""

    @abstractmethod
    def now(self, into: numpy.ndarray) -> int:
        """Copies weights and sums; returns how many steps of this epoch are in them."""

    @abstractmethod
    def look(self, into: numpy.ndarray) -> numpy.ndarray:
        """The same, and flags of the batches whose steps these are; not where several servers hold them."""

    @abstractmethod
    def close(self) -> None:
        """This worker looks at them no more."""


class InMemory(Weights):
    """In a file that all of them map."""

    def __init__(self, path: Path, worker: int, size: int, batches: int, workers: int, averages: slice) -> None:
        self._worker = worker
        self._averages = averages
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        sizes = {"head": 24, "claims": 4 * batches, "steps": 8 * workers, "done": 2 * batches, "runs": 2 * size * 4}
        starts, length = {}, 0
        for name, count in sizes.items():
            starts[name] = length
            length += -(-count // 64) * 64
        os.ftruncate(self._file, length)
        self._memory = memory = mmap.mmap(self._file, length)
        # How often they were changed, the epoch + 1, how often when it began.
        self._head = numpy.frombuffer(memory, numpy.int64, 3, starts["head"])
        self._claims = numpy.frombuffer(memory, numpy.int32, batches, starts["claims"])
        self._steps = numpy.frombuffer(memory, numpy.int64, workers, starts["steps"])
        self._done = numpy.frombuffer(memory, numpy.uint8, 2 * batches, starts["done"]).reshape(2, batches)
        self._runs = numpy.frombuffer(memory, numpy.float32, 2 * size, starts["runs"]).reshape(2, size)

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """By one process at a time; the kernel lets go of it when that process is killed."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @property
    def _side(self) -> int:
        """Which of the two copies counts."""
        return int(self._head[0] % 2)

    def begin(self, epoch: int, weights: numpy.ndarray, done: numpy.ndarray | None = None) -> None:
        if int(self._head[1]) == epoch + 1:
            self._claims[self._done[self._side] == 0] = FREE  # those who had taken them are gone, or begin again
        else:
            following = 1 - self._side
            self._runs[following] = 0
            self._runs[following, : len(weights)] = weights
            self._done[following] = 0 if done is None else done
            self._claims[:] = numpy.where(self._done[following] == 0, FREE, self._worker)
            self._head[1] = 0  # who is killed between these lines has begun nothing
            self._head[0] += 1
            self._head[2] = self._head[0] - int(self._done[following].sum())
            self._head[1] = epoch + 1
        self._steps[:] = 0

    def take(self, into: numpy.ndarray) -> int | None:
        with self._held():
            into[:] = self._runs[self._side]
            free = numpy.flatnonzero(self._claims == FREE)
            if not len(free):
                return None
            self._claims[free[0]] = self._worker
            return int(free[0])

    def add(self, change: numpy.ndarray, batch: int) -> None:
        with self._held():
            now, following = self._side, 1 - self._side
            numpy.add(self._runs[now], change, out=self._runs[following])
            self._runs[following, self._averages] = change[self._averages]
            self._done[following] = self._done[now]
            self._done[following, batch] = 1
            self._head[0] += 1  # from here on it counts
            self._steps[self._worker] += 1

    def ahead(self, workers: Sequence[int]) -> int:
        if not (self._claims == FREE).any():
            return 0
        return int(self._steps[self._worker] - self._steps[list(workers)].min())

    def now(self, into: numpy.ndarray) -> int:
        with self._held():
            into[:] = self._runs[self._side]
            return int(self._head[0] - self._head[2])

    def look(self, into: numpy.ndarray) -> numpy.ndarray:
        with self._held():
            into[:] = self._runs[self._side]
            done: numpy.ndarray = self._done[self._side].astype(bool)
            return done

    def close(self) -> None:
        os.close(self._file)
