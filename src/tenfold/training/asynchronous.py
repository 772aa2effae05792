"""In a worker: everybody trains by itself on the weights as they are now, and adds what it has learned to them.

A worker copies the weights, takes a step of its own optimizer on a batch that nobody else has, and adds the difference.
Nobody waits for anybody before the end of an epoch, except where `staleness` bounds how far one may be ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns
from tenfold.training.strategy import Strategy
from tenfold.training.weights import Weights
from tenfold.work.here import here

NAP = 0.0005  # seconds between two looks at what the others do


class Asynchronous(Strategy):
    """One worker's part."""

    def epoch(self) -> None:
        if not self.muster.is_one_machine:
            raise BadCall(
                'how="asynchronous": the workers are on several machines, and share no memory; give average_every=10, '
                'say, which needs none, or how="synchronous"'
            )
        batches, learner = self._batches_of_epoch(), self.learner
        size = learner.weights_size
        path = here().shared / "weights"
        weights = Weights(path, size + learner.sums_size, len(batches), self.terms.ticket.count)
        try:
            if self.is_first:
                run = numpy.empty(size, numpy.float32)
                learner.write_weights(run)
                weights.begin(self.progress.epoch, run)
            self.add()  # nobody takes a batch before that
            self._work(weights, batches)
            self._wait(lambda: bool(weights.done.all()))
            self.clock.lap("waiting")
            learner.read_weights(weights.run[:size])
            self._logs, added = learner.logs(weights.run), weights.added
            self.add()  # nobody begins the next epoch before all have read this one's end
            self.progress.step += added
        finally:
            weights.close()

    def logs(self) -> dict[str, float]:
        return self._logs

    def _batches_of_epoch(self) -> list[tuple[Columns, numpy.ndarray]]:
        """With nothing read yet."""
        size = self.terms.fit.batch_size
        return [
            (block, orders[0][start : start + size])
            for block, orders in self.reading.orders([self.member], self.progress.epoch)
            for start in range(0, orders.shape[1], size)
        ]

    def _work(self, weights: Weights, batches: list[tuple[Columns, numpy.ndarray]]) -> None:
        """Batches that nobody else has, until there are none."""
        index, learner = self.attendance.index, self.learner
        size = learner.weights_size
        before = numpy.empty(size, numpy.float32)
        after = numpy.empty(size + learner.sums_size, numpy.float32)
        present = [arrival.index for arrival in self.muster.arrivals]
        bound = self.terms.staleness
        while True:
            self.attendance.look()
            if bound is not None:
                self._wait(lambda: weights.steps[index] - weights.slowest(present) <= bound)
                self.clock.lap("waiting")
            with weights.held():
                batch = weights.take(index)
                before[:] = weights.run[:size]
            if batch is None:
                return
            self.clock.lap("communication")
            block, rows = batches[batch]
            learner.advance(block, rows, before, after)
            if not numpy.isfinite(after[size:]).all():
                self.check(learner.logs(after)["loss"], rows, self.progress.step + weights.added, batch)
            after[:size] -= before
            self.clock.stepped()
            with weights.held():
                weights.add(after, batch, index)
            self.clock.lap("communication")

    def _wait(self, condition: Callable[[], bool]) -> None:
        """For others; Changed where one of them is gone."""
        while not condition():
            self.attendance.look()
            time.sleep(NAP)
