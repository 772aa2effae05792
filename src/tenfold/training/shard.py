"""In a parameter server: its part of the weights, and what each request makes of it. No sockets here.

An update reaches the servers in parts. All but the first server hold theirs until they hear that the first one has
counted it; the worker says so with whatever it asks for next. Where it is killed before that, the muster changes, and
the first of those who are left asks the first server which updates count, and settles the others by that. So an update
is in all parts or in none, and once: a repeated one is known by its number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy

from tenfold.training.requests import Answer, Kind, Request
from tenfold.training.weights import FREE


class Stale(Exception):
    """The worker that asks belongs to an earlier muster: it was given up, and others do its work."""


class Shard:
    """One part; the first one also knows who does which batch. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._muster = 0
        self._epoch, self._begun = -1, 0
        self._run = numpy.zeros(0, numpy.float32)
        self._averages = slice(0, 0)
        self._held: dict[int, tuple[int, numpy.ndarray]] = {}  # an update of each worker, and its number
        self._numbers = numpy.zeros(0, numpy.int64)  # the last update of each worker that is in the run
        self._claims = numpy.zeros(0, numpy.int32)
        self._done = numpy.zeros(0, bool)
        self._steps = numpy.zeros(0, numpy.int64)
        self._answers: dict[Kind, Callable[[Request], Answer]] = {
            Kind.LOOK: self._look,
            Kind.SETTLE: self._settle,
            Kind.BEGIN: self._begin,
            Kind.RESUME: self._resume,
            Kind.TAKE: self._take,
            Kind.PULL: self._pull,
            Kind.HOLD: self._hold,
            Kind.ADD: self._add,
            Kind.AHEAD: self._ahead,
            Kind.SEE: self._see,
        }

    def answer(self, request: Request) -> Answer:
        """Do what is asked for, all of it or nothing."""
        with self._lock:
            if request.muster < self._muster:
                raise Stale
            return self._answers[request.kind](request)

    # -- an epoch begins, or goes on with others --------------------------------------------------------------------

    def _look(self, request: Request) -> Answer:
        self._muster = request.muster
        return Answer(self._epoch, self._begun, body=self._numbers.copy())

    def _settle(self, request: Request) -> Answer:
        self._muster = request.muster
        counted = request.body if request.body is not None else self._numbers
        for worker in list(self._held):
            self._release(worker, int(counted[worker]) if worker < len(counted) else 0)
        self._held.clear()
        self._numbers[:] = 0
        return Answer(self._epoch, self._begun)

    def _begin(self, request: Request) -> Answer:
        assert request.body is not None
        self._epoch, self._begun = request.value, request.muster
        self._run, self._averages = request.body, slice(*request.averages)
        self._held.clear()
        self._claims = numpy.full(request.count, FREE, numpy.int32)
        self._done = numpy.zeros(request.count, bool)
        return self._count_anew(request)

    def _resume(self, request: Request) -> Answer:
        if request.body is not None:
            self._done[request.body] = True
            self._claims[request.body] = request.worker
        self._claims[~self._done] = FREE  # those who had taken them are gone, or begin again
        return self._count_anew(request)

    def _count_anew(self, request: Request) -> Answer:
        self._numbers = numpy.zeros(request.workers, numpy.int64)
        self._steps = numpy.zeros(request.workers, numpy.int64)
        return Answer()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _take(self, request: Request) -> Answer:
        """A worker that has one is given the same: the last answer has not reached it."""
        own = numpy.flatnonzero((self._claims == request.worker) & ~self._done)
        free = own if len(own) else numpy.flatnonzero(self._claims == FREE)
        batch = int(free[0]) if len(free) else FREE
        if batch != FREE:
            self._claims[batch] = request.worker
        return Answer(batch, added=self._added, body=self._run.copy())

    def _pull(self, request: Request) -> Answer:
        self._release(request.worker, request.number)
        return Answer(added=self._added, body=self._run.copy())

    def _hold(self, request: Request) -> Answer:
        assert request.body is not None
        self._release(request.worker, request.number - 1)
        if request.number > self._numbers[request.worker]:
            self._held[request.worker] = request.number, request.body
        return Answer()

    def _release(self, worker: int, counted: int) -> None:
        """Add what is held of a worker, where the first server has counted it."""
        number, change = self._held.get(worker, (0, None))
        if change is not None and number <= counted:
            self._change(change)
            self._numbers[worker] = number
            del self._held[worker]

    def _change(self, change: numpy.ndarray) -> None:
        self._run += change
        self._run[self._averages] = change[self._averages]

    def _add(self, request: Request) -> Answer:
        assert request.body is not None
        if request.number > self._numbers[request.worker]:
            self._change(request.body)
            self._numbers[request.worker] = request.number
            self._done[request.value] = True
            self._steps[request.worker] += 1
        return Answer()

    def _ahead(self, request: Request) -> Answer:
        assert request.body is not None
        if not (self._claims == FREE).any():
            return Answer(0)
        return Answer(int(self._steps[request.worker] - self._steps[request.body].min()))

    def _see(self, _request: Request) -> Answer:
        return Answer(body=numpy.concatenate([self._run, self._done.astype(numpy.float32)]))

    @property
    def _added(self) -> int:
        return int(self._done.sum())
