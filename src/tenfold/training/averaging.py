"""In a worker: everybody takes some steps by itself, then the weights are averaged, and so on: local SGD.

A round is so many batches for each worker. One that is interrupted is begun again from the last average; what an
optimizer remembers stays each worker's own.
"""

from __future__ import annotations

from itertools import islice

import numpy

from tenfold.fuse.columns import Columns
from tenfold.training.strategy import Strategy


class Averaging(Strategy):
    """One worker's part."""

    def epoch(self) -> None:
        size = self.learner.weights_size
        if self.progress.batch == 0:
            self.progress.sums = numpy.zeros(self.learner.sums_size)
        average = numpy.empty(size, numpy.float32)
        self.learner.write_weights(average)
        self._begun = self.progress.batch
        batches = self.shares()
        while part := list(islice(batches, (self.terms.average_every or 1) * self.slots.count)):
            self.attendance.look()
            self.clock.lap("input")
            own = part[self.slots.rank :: self.slots.count]
            self._take(own, average)
            self.slots.slot[:size] *= len(own) / len(part)
            self.clock.lap("compute")
            total = self.add()
            self.clock.lap("communication")
            average[:] = total[:size]
            self.learner.read_weights(average)
            self.progress.sums += total[-self.learner.sums_size :]
            loss = self.learner.logs(total)["loss"]
            self.stepped([loss] * len(part), [rows for _, _, rows in part])

    def part(self, batch: int, rows: numpy.ndarray) -> numpy.ndarray:
        """A whole batch, or nothing of it: they take turns."""
        return rows if (batch - self._begun) % self.slots.count == self.slots.rank else rows[:0]

    def logs(self) -> dict[str, float]:
        return self.learner.logs(self.progress.sums)

    def _take(self, batches: list[tuple[Columns, numpy.ndarray, numpy.ndarray]], weights: numpy.ndarray) -> None:
        """Steps on these batches, from these weights: the new ones, and the sums, go into this worker's slot."""
        size, slot = self.learner.weights_size, self.slots.slot
        sums = numpy.zeros(self.learner.sums_size)
        now, after = weights, numpy.empty(size + len(sums), numpy.float32)
        for number, (block, own, rows) in enumerate(batches):
            place = self.slots.rank + number * self.slots.count
            self.learner.count(self.progress.step + place)
            self.learner.advance(block, own, now, after)
            if not numpy.isfinite(after[size:]).all():  # by who has it: the sum of all would name no batch
                self.check(
                    self.learner.logs(after)["loss"], rows, self.progress.step + place, self.progress.batch + place
                )
            sums += after[size:]
            now = after[:size].copy()
        slot[:] = 0
        slot[:size], slot[-len(sums) :] = now, sums
