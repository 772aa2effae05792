"""In a worker: all copies of the model take the same steps, on gradients that were added up over all workers.

The global batch is divided among the workers that are there; so the weights are those of one process that trains on
whole batches, however many workers there are, and however many there were before. A step that loses a worker is
repeated by the others.
"""

from __future__ import annotations

import math
import time

import numpy

from tenfold.fuse.columns import Columns
from tenfold.training.adding import Vector, part
from tenfold.training.strategy import Strategy

CHUNK_SECONDS = 0.1  # of steps that one process takes in one go
CHUNK_MOST = 64


class Synchronous(Strategy):
    """One worker's part."""

    _chunk = 1
    _most = CHUNK_MOST

    def epoch(self) -> None:
        if self.progress.batch == 0:
            self.learner.begin()
        if self.slots.count == 1 and self.terms.accumulate == 1 and self.terms.clip is None:
            self._alone()
        else:
            self._divided()

    def _divided(self) -> None:
        for block, own, rows in self.shares():
            began = time.monotonic()
            self.clock.lap("input")
            self.attendance.look()
            self._gradient(block, own, len(rows))
            self.clock.lap("compute")
            total = self.learner.whole(self.add())
            self.clock.lap("communication")
            if self.terms.clip is not None:
                total = self._clipped(total, self.terms.clip)
            loss = self.learner.apply(total)
            self.attendance.stepped(time.monotonic() - began)
            self.stepped([loss], [rows])

    def _gradient(self, block: Columns, rows: numpy.ndarray, count: int) -> None:
        """Of this worker's share, into its slot."""
        slot = self.slots.slot
        pieces = [part(rows, number, self.terms.accumulate) for number in range(self.terms.accumulate)]
        pieces = [piece for piece in pieces if len(piece)]
        if len(pieces) <= 1:
            self.learner.gradient(block, rows, len(rows) / count, slot)
            return
        found: Vector = 0
        for piece in pieces:
            self.learner.gradient(block, piece, len(piece) / count, slot)
            found = found + slot
        slot[:] = found

    def _clipped(self, total: Vector, most: float) -> Vector:
        """The same for all, because they have the same sum; a copy, because they may share it."""
        gradient = total[: self.learner.gradient_size]
        norm = math.sqrt(float(gradient @ gradient))
        if not norm > most:  # nor where it is not a number
            return total
        found = total * 1
        found[: len(gradient)] *= most / norm
        return found

    def _alone(self) -> None:
        """One worker: several steps in one go, where they are short."""
        waiting: list[numpy.ndarray] = []
        last: Columns | None = None
        for block, rows in self.batches():
            if last is not None and (block is not last or len(waiting) >= self._chunk or len(rows) != len(waiting[0])):
                self._take(last, waiting)
                waiting = []
            waiting.append(rows)
            last = block
        if last is not None:
            self._take(last, waiting)

    def _take(self, block: Columns, batches: list[numpy.ndarray]) -> None:
        self.attendance.look()
        self.clock.lap("input")
        began = time.monotonic()
        losses = self.learner.steps(block, batches)
        seconds = (time.monotonic() - began) / len(batches)
        self._chunk = max(1, min(self._most, 2 * self._chunk, int(CHUNK_SECONDS / max(seconds, 1e-6))))
        self.stepped(losses, list(map(block.numbers, batches)))
