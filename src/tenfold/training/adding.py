"""Adds up the vectors of workers on one machine, in memory that they share: no server, no socket, no copy.

Every worker has a slot, where its vector is computed in place. When all have arrived, each adds up one slice of all
slots; when all slices are there, everybody reads the whole sum. Which worker has got how far stands in a row of
counters, each written by one worker alone. A worker that waits looks at them, and now and then asks whether the others
are still there.
"""

from __future__ import annotations

import mmap
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

SPINS = 200  # looks in a row before the core is offered to others
YIELDS = 2000  # offers before it sleeps: a few milliseconds
NAP = 50e-6
ASK_EVERY = 0.002  # seconds between two questions whether the others are still there
_LINE = 8  # counters in a cache line: each worker's own, so that writing one disturbs nobody


Vector = Any
"""One run of float32: an array, or a tensor of PyTorch, which may be on a GPU."""
Ask = Callable[[Callable[[], list[int]]], None]
"""Called while a worker waits, with a function that tells which ranks are missing; raises where that is pointless."""


def part(rows: numpy.ndarray, number: int, count: int) -> numpy.ndarray:
    """One of so many parts of some rows. None is a single row, which batch norm refuses: rather, some have nothing."""
    count = min(count, max(1, len(rows) // 2))
    return rows[len(rows) * number // count : len(rows) * (number + 1) // count]


class Slots(ABC):
    """Where the vectors of some workers are added up, and this worker's place among them."""

    slot: Vector
    """Where this worker's vector goes."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.count = count

    def part(self, rows: numpy.ndarray) -> numpy.ndarray:
        """This worker's share of some rows."""
        return part(rows, self.rank, self.count)

    @abstractmethod
    def add(self, turn: int, ask: Ask) -> Vector:
        """The sum of all slots, when all are there; valid until the next turn. Turns count from 1.

        An array may be read by others, too; a tensor is this worker's own, and may be the slot.
        When `ask` has raised, this worker may be the only one that does not have the sum.
        """

    def close(self) -> None:  # noqa: B027  # memory needs no closing
        """No more turns."""


class Alone(Slots):
    """One worker's, whose vector is the sum."""

    def __init__(self, size: int) -> None:
        super().__init__(0, 1)
        self.slot = numpy.zeros(size, numpy.float32)

    def add(self, turn: int, ask: Ask) -> Vector:
        return self.slot


class Shared(Slots):
    """Slots in memory that all of them map."""

    def __init__(self, path: Path, rank: int, count: int, size: int) -> None:
        super().__init__(rank, count)
        self._arrived, self._added = 0, count * _LINE
        counters = 2 * count * _LINE * 8
        length = counters + (count + 1) * size * 4
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, length)  # by each of them, to the same length: it begins with zeros
            self._memory = mmap.mmap(handle, length)
        finally:
            os.close(handle)
        self._counters = memoryview(self._memory)[:counters].cast("q")
        slots = numpy.frombuffer(self._memory, numpy.float32, (count + 1) * size, counters).reshape(count + 1, size)
        self.slot = slots[rank]
        self._slots: numpy.ndarray = slots[:count]
        self._total: numpy.ndarray = slots[count]
        cuts = [size * part // count for part in range(count + 1)]
        self._slice = slice(cuts[rank], cuts[rank + 1])

    def add(self, turn: int, ask: Ask) -> Vector:
        self._reach(self._arrived, turn, ask)
        numpy.add.reduce(self._slots[:, self._slice], axis=0, out=self._total[self._slice])
        self._reach(self._added, turn, ask)
        return self._total

    def _reach(self, row: int, turn: int, ask: Ask) -> None:
        """Say that this worker has got here, and wait until all have."""
        counters, places = self._counters, range(row, row + self.count * _LINE, _LINE)
        counters[row + self.rank * _LINE] = turn
        looks, next_question = 0, time.monotonic() + ASK_EVERY
        for place in places:
            while counters[place] < turn:
                looks += 1
                if looks < SPINS:
                    continue
                time.sleep(0 if looks < YIELDS else NAP)
                if time.monotonic() > next_question:
                    ask(lambda: [rank for rank, place in enumerate(places) if counters[place] < turn])
                    next_question = time.monotonic() + ASK_EVERY
