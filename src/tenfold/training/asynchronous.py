"""In a worker: everybody trains by itself on the weights as they are now, and adds what it has learned to them.

A worker copies the weights, takes a step of its own optimizer on a batch that nobody else has, and adds the difference.
Moving averages are no differences: it writes its own, which are of the last ones and of its batch.
Nobody waits for anybody before the end of an epoch, except where `staleness` bounds how far one may be ahead. Where the
weights are, in shared memory or with servers, is known only to the one that opens them.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import numpy

from tenfold.fuse.columns import Columns
from tenfold.fuse.reading import own_rows
from tenfold.training.served import Served
from tenfold.training.strategy import Strategy
from tenfold.training.weights import InMemory, Weights
from tenfold.training.wires import of_call
from tenfold.work.here import here

NAP = 0.0005  # seconds between two looks at what the others do


class Asynchronous(Strategy):
    """One worker's part."""

    _logs: dict[str, float]
    _added: int

    def epoch(self) -> None:
        if self.progress.begun is None:  # else one of the middle of this epoch may have been saved, which is newer
            self.save_when_due()
        batches, learner, progress = self._batches_of_epoch(), self.learner, self.progress
        if progress.begun is None:
            progress.begun = numpy.empty(learner.weights_size, numpy.float32)
            learner.write_weights(progress.begun)
            progress.done = None
        run = numpy.empty(learner.weights_size + learner.sums_size, numpy.float32)
        with contextlib.closing(self._weights(len(run), len(batches))) as weights:
            if self.is_first:
                weights.begin(progress.epoch, progress.begun, getattr(progress, "done", None))  # old ones have none
            self.add()  # nobody takes a batch before that
            self._work(weights, batches, run)
            self.add()  # all of them are done when nobody has one
            self.clock.lap("waiting")
            self._added = weights.now(run)
            learner.read_weights(run[: learner.weights_size])
            self._logs = learner.logs(run)
            self.add()  # nobody begins the next epoch before all have read this one's end

    def logs(self) -> dict[str, float]:
        return self._logs

    def close_epoch(self, logs: dict[str, float]) -> None:
        self.progress.step += self._added
        self.progress.begun = None
        super().close_epoch(logs)

    def _weights(self, size: int, batches: int) -> Weights:
        index, count = self.attendance.index, self.terms.ticket.count
        averages = slice(self.learner.gradient_size, self.learner.weights_size)
        if self.muster.servers:
            return Served(self.muster, index, self.attendance.key, size, batches, count, averages, self._ask)
        path = here().shared / f"weights-{of_call(self.attendance.key)}"
        if self.is_first:
            for other in path.parent.glob("weights*"):
                if other != path:
                    other.unlink()
        return InMemory(path, index, size, batches, count, averages)

    def _batches_of_epoch(self) -> list[tuple[Columns, numpy.ndarray]]:
        """With nothing read yet."""
        size = self.terms.fit.batch_size
        return [
            (block, orders[0][start : start + size])
            for block, orders in self.reading.orders([self.member], self.progress.epoch)
            for start in range(0, orders.shape[1], size)
        ]

    def _work(self, weights: Weights, batches: list[tuple[Columns, numpy.ndarray]], before: numpy.ndarray) -> None:
        """Batches that nobody else has, until there are none."""
        learner = self.learner
        size, trained = learner.weights_size, learner.gradient_size
        after = numpy.empty_like(before)
        while True:
            self.attendance.look()
            self._let_others_catch_up(weights)
            batch = weights.take(before)
            if batch is None:
                return
            self.clock.lap("communication")
            self._save(weights, batch)
            block, rows = batches[batch]
            learner.count(self.progress.step + batch)
            learner.advance(*own_rows(block, rows), before[:size], after)
            if not numpy.isfinite(after[size:]).all():
                step = self.progress.step + weights.now(numpy.empty_like(before))
                self.check(learner.logs(after)["loss"], block.numbers(rows), step, batch)
            after[:trained] -= before[:trained]
            self.clock.stepped()
            weights.add(after, batch)
            self.clock.lap("communication")

    def _save(self, weights: Weights, batch: int) -> None:
        """In the middle of an epoch, a checkpoint of the updates of now, while the others go on.

        Batches are taken in their order: so the last one taken is about how many are done.
        """
        if len(self.muster.servers) > 1:  # each of them is at another update
            return
        if not (self.is_first and self._pacer.due(self.progress.step + batch)):
            return
        run = numpy.empty(self.learner.weights_size + self.learner.sums_size, numpy.float32)
        done = weights.look(run)
        state = self.learner.state(), replace(self.progress, begun=run, done=done)
        self.attendance.save(self.progress.mark, state)
        self.clock.lap("communication")

    def _let_others_catch_up(self, weights: Weights) -> None:
        """Wait while this worker is too far ahead; Changed where one of the others is gone."""
        bound = self.terms.staleness
        if bound is None:
            return
        present = [arrival.index for arrival in self.muster.arrivals]
        while weights.ahead(present) > bound:
            self.attendance.look()
            time.sleep(NAP)
        self.clock.lap("waiting")
