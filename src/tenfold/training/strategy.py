"""In a worker: what all strategies share. Who is there, where the training goes on, what happens between epochs."""

from __future__ import annotations

import contextlib
import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns
from tenfold.fuse.reading import Reading
from tenfold.plan.workers import Timing
from tenfold.training import diverging
from tenfold.training.adding import Slots, Vector
from tenfold.training.attendance import Attending, Changed, Over
from tenfold.training.exchange import Exchange
from tenfold.training.muster import Muster
from tenfold.training.origin import origin
from tenfold.training.port import Learner
from tenfold.training.record import Record
from tenfold.training.stopwatch import Stopwatch
from tenfold.training.terms import Pacer, Terms
from tenfold.training.trained import Helped, Trained
from tenfold.work.clock import Clock

SCORED_ROWS = 1024  # at a time


@dataclass(slots=True)
class Progress:
    """How far the training is."""

    record: Record
    """Of the epochs before."""
    epoch: int = 0
    """Under way."""
    batch: int = 0
    """The next one of it."""
    step: int = 0
    """Batches trained in all."""
    sums: Any = None
    """Of loss and metrics in this epoch, where the learner does not keep them."""
    begun: Any = None
    """Weights with which the epoch under way began, where those of the learner are others by now; or those of later in
    it, and its sums behind them."""
    done: Any = None
    """Which of its batches are in these, as a row of flags; None for none."""

    @property
    def mark(self) -> int:
        """Counts whatever changes it: two workers with the same one have the same model."""
        return self.step + self.epoch


class Strategy(ABC):
    """One worker's part in the training of a model."""

    def __init__(self, terms: Terms, member: Member, learner: Learner, attendance: Attending, clock: Clock) -> None:
        self.terms = terms
        self.member = member
        self.learner = learner
        self.attendance = attendance
        self.reading = Reading(terms.fit, [member], alone=True)
        self.progress = Progress(Record.fresh(terms.fit.stopping))
        self._pacer = Pacer(terms.checkpointing)
        self.muster: Muster
        self.slots: Slots
        self._turn = 1
        self._exchange = Exchange(terms, learner, attendance)
        self._open = contextlib.ExitStack()
        self.clock = clock
        self._stopwatch = Stopwatch()
        self._timed = not terms.chosen

    @abstractmethod
    def epoch(self) -> None:
        """What is left of the epoch under way."""

    def train(self) -> Trained | Helped:
        """To the end. The result comes from the first of the workers."""
        size = self.learner.weights_size + self.learner.sums_size
        began = origin(self.learner) if self.terms.ticket.count > 1 else b""
        self.attendance.arrive(self.progress.mark, size, self._exchange.gpu, began)
        with contextlib.closing(self._exchange), self._open:
            return self._to_the_end()

    def _to_the_end(self) -> Trained | Helped:
        while True:
            try:
                self._regroup()
                self._epochs()
                if self.is_first:
                    self.attendance.finish(self._result())
                result: Trained = self.attendance.await_end()
                return result if self.is_first else Helped(self.clock.spent)
            except Changed:
                continue
            except Over as over:  # it came when the others had finished
                return over.args[0]  # type: ignore[no-any-return]

    @property
    def is_first(self) -> bool:
        return self.slots.rank == 0

    # -- who is there ---------------------------------------------------------------------------------------------

    def _regroup(self) -> None:
        self._open.close()
        self.muster, state = self.attendance.regroup(self.progress.mark, self.state)
        if state is not None:
            self.go_on(state)
        self._turn = 1  # to open them may take one
        slots = self._exchange.slots(self.muster, self._ask)
        self.slots = self._open.enter_context(contextlib.closing(slots))

    def _ask(self, missing: Callable[[], list[int]]) -> None:
        self.attendance.ask(missing, self.muster)

    def add(self) -> Vector:
        """The sum of what all workers have in their slots; Changed where one of them is gone."""
        self._turn += 1
        return self.slots.add(self._turn, self._ask)

    def state(self) -> tuple[Any, Progress]:
        """Everything that the training goes on from."""
        return self.learner.state(), self.progress

    def go_on(self, state: tuple[Any, Progress]) -> None:
        """Go on from there."""
        learned, progress = state
        self.learner.put(learned)
        self.progress = copy.deepcopy(progress)

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _epochs(self) -> None:
        progress = self.progress
        while progress.epoch < self.terms.fit.epochs and not progress.record.stopped:
            self._stopwatch.begin()
            self.epoch()
            self.close_epoch(self.logs() | self._validation())

    def logs(self) -> dict[str, float]:
        """Loss and metrics of the epoch."""
        return self.learner.logs()

    def batches(self) -> Iterator[tuple[Columns, numpy.ndarray]]:
        """What is left of the epoch, in the same order for any number of workers."""
        return self.reading.batches(self.member, self.progress.epoch, self.progress.batch)

    def shares(self) -> Iterator[tuple[Columns, numpy.ndarray, numpy.ndarray]]:
        """The same, with this worker's part of each batch before its rows; of a stream, nothing else is read."""
        progress = self.progress
        return self.reading.shares(self.member, progress.epoch, progress.batch, self.part)

    def part(self, batch: int, rows: numpy.ndarray) -> numpy.ndarray:
        """This worker's part of a batch."""
        return self.slots.part(rows)

    def stepped(self, losses: Sequence[float], batches: Sequence[numpy.ndarray]) -> None:
        """So many batches are done."""
        self.clock.stepped()
        for loss, rows in zip(losses, batches, strict=True):
            self.check(loss, rows, self.progress.step, self.progress.batch)
            self.progress.batch += 1
            self.progress.step += 1
        self._stopwatch.stepped(len(batches))
        if self.is_first and not self._timed and self._stopwatch.pace is not None:
            self._timed = True
            self.attendance.timed(self._timing(self._stopwatch.pace))
        self.save_when_due()

    def save_when_due(self) -> None:
        """A checkpoint, by the first of the workers."""
        if self.is_first and self._pacer.due(self.progress.step):
            self.attendance.save(self.progress.mark, self.state())
            self.clock.lap("communication")

    def _timing(self, pace: float) -> Timing:
        fit = self.terms.fit
        steps = fit.epochs * math.ceil(fit.rows_of(self.member)[0] / fit.batch_size)
        spent, left = sum(self.clock.spent.values()), steps - self.progress.step
        return Timing(pace, spent, left, self.learner.takes_devices)

    def check(self, loss: float, rows: numpy.ndarray, step: int, batch: int) -> None:
        """A loss that is not a number ends the training."""
        diverging.check(loss, rows, epoch=self.progress.epoch, batch=batch, step=step)

    def _validation(self) -> dict[str, float]:
        """Every worker scores its part of the rows."""
        if not self.reading.scores:
            return {}
        slots = self.slots
        self.attendance.look()
        self.attendance.stepped(None)  # to score all rows takes longer than a step, and some longer than others
        slots.slot[:] = 0
        for block, part, _ in self.reading.scored_shares(self.member, lambda _batch, rows: slots.part(rows)):
            for start in range(0, len(part), SCORED_ROWS):
                self.learner.score(block, part[start : start + SCORED_ROWS], slots.slot)
        self.clock.lap("compute")
        total = self.add()
        self.clock.lap("communication")
        return {f"val_{name}": value for name, value in self.learner.logs(total).items()}

    def close_epoch(self, logs: dict[str, float]) -> None:
        """Keep what is to be known of it, and go on to the next."""
        progress = self.progress
        progress.record.add(progress.epoch, logs, self.learner.weights)
        if self.is_first:
            self.member.tell(progress.epoch, logs)
        self.learner.close(logs)
        progress.epoch, progress.batch = progress.epoch + 1, 0

    def _result(self) -> Trained:
        result = self.progress.record.result(self.member.params, self.learner.weights, self.terms.how)
        if self.progress.record.best is None:  # else they are others than those of now
            weights = numpy.empty(self.learner.weights_size, numpy.float32)
            self.learner.write_weights(weights)
            diverging.check_weights(weights[: self.learner.gradient_size], self.progress.step)
        return Trained(result, self.progress.step, len(self.muster.arrivals), spent=self.clock.spent)
