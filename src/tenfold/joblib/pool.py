"""Workers, and the thread that owns them, for one `Parallel` at a time.

    submit ──(orders)──> the thread ──> crew: one batch for each worker, the next ones packed ahead
    Future <──────────── the thread <── crew: values, failures, deaths

The calls of a batch are tasks of their own: when a worker dies, those that it had finished are not run again, and the
one that it died of is. Callbacks run in the thread, as loky's do in its own.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import queue
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tenfold.engines import Batch, Broken, Event, Failed, Finished, FinishedLarge, GivenBack, Printed
from tenfold.engines.local import LocalCrew
from tenfold.errors import BadCall, WorkersUnavailable
from tenfold.joblib.assignment import DEATHS, Assignment
from tenfold.joblib.calling import Beginning, Call, Caller
from tenfold.joblib.sending import Sender
from tenfold.joblib.shape import Shape, plan
from tenfold.nursery.load import load
from tenfold.work import parcel
from tenfold.work.run import Job

TICK = 1.0  # seconds; the crew itself looks more often
GONE_WITHIN = 10.0  # seconds that the thread may take to end when it is told to


class Pool:
    """Workers of one shape. Its methods may be called from any thread."""

    def __init__(self, shape: Shape, may_end: Callable[[Pool], bool]) -> None:
        self.shape = shape
        self._may_end = may_end
        self._owner = os.getpid()
        folder = os.path.join(shape.files, f"tenfold-joblib-{os.getpid()}-{os.urandom(8).hex()}")
        self._sender = Sender(folder)
        self._crew = _crew(shape, folder)
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)
        self._crew.wake_with(self._bell.fileno())
        self._lock = threading.RLock()  # the garbage collector may end a generator, and so a call, anywhere
        self._takes_orders = True
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting: deque[Assignment] = deque()
        self._under_way: dict[int, Assignment] = {}
        self._over: list[Assignment] = []  # and their futures do not know yet
        self._batches = itertools.count(1)
        self._calls = 0
        self._earlier = 0
        self._ending: Exception | None = None
        self._thread = threading.Thread(target=self._live, daemon=True, name="tenfold-joblib")
        self._thread.start()

    @property
    def is_usable(self) -> bool:
        return self._ending is None

    @property
    def is_gone(self) -> bool:
        return not self._thread.is_alive()

    def begin(self, most: int | None, mode: str | None) -> None:
        """A call of a `Parallel` begins: arrays above `most` bytes are mapped in `mode`."""
        self._order(lambda: self._begin(most, mode))

    def submit(self, calls: list[Call], *, single: bool = False) -> Future[Any]:
        """Run `calls`; the future has the list of their values, or the value itself where there is a `single` one."""
        assignment = Assignment(calls, single)
        if not self._order(lambda: self._accept(assignment)):
            self._fail([assignment])
        return assignment.future

    def rest(self) -> None:
        """The `Parallel` is done: its files are not needed any more."""
        self._order(self._sender.clear)

    def close(self, why: Exception) -> None:
        """Kill the workers; calls that are not done fail with `why`. Returns at once."""
        self._order(lambda: self._end(why))

    def wait(self) -> None:
        """Until all is gone, after `close`."""
        if threading.current_thread() is not self._thread:
            self._thread.join(GONE_WITHIN)

    def _order(self, order: Callable[[], None]) -> bool:
        if os.getpid() != self._owner:
            return False  # a fork, which has neither the thread nor, perhaps, the lock
        with self._lock:
            if not self._takes_orders:
                return False
            self._orders.put(order)
            with contextlib.suppress(BlockingIOError):  # it is ringing already
                self._rope.send(b"!")
        return True

    # -- the thread ---------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while self._ending is None:
                self._obey()
                self._send()
                if self._under_way:
                    self._hear(self._crew.receive(TICK))
                    self._send()  # workers come first: a callback may take long
                self._tell()
        except Exception as error:
            self._ending = error
        with self._lock:
            self._takes_orders = False
        try:
            self._crew.close()
            self._sender.clear()
        finally:
            self._bell.close()
            self._rope.close()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._orders.get(block=False)()
            self._fail([*self._over, *self._under_way.values(), *self._waiting])

    def _obey(self) -> None:
        """Do what was ordered; wait for an order where there is nothing else to do."""
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        if not (self._waiting or self._under_way):
            try:
                self._orders.get(timeout=self.shape.idle)()
            except queue.Empty:
                if self._may_end(self):
                    self._end(WorkersUnavailable("the workers have ended, because nobody has used them for a while"))
        with contextlib.suppress(queue.Empty):
            while self._ending is None:
                self._orders.get(block=False)()

    def _begin(self, most: int | None, mode: str | None) -> None:
        self._sender.begin(most, mode)
        self._earlier = self._calls

    def _accept(self, assignment: Assignment) -> None:
        assignment.first, assignment.earlier = self._calls, self._earlier
        self._calls += len(assignment)
        self._waiting.append(assignment)

    def _end(self, why: Exception) -> None:
        self._ending = why

    def _send(self) -> None:
        """Give each worker a batch, and have the next ones ready: packing them may take long, too."""
        while self._waiting and len(self._under_way) < self._crew.capacity:
            assignment = self._waiting.popleft()
            if self._pack(assignment):
                calls = len(assignment.rest())
                first = assignment.first + assignment.done
                assignment.until = assignment.done + calls
                number = next(self._batches)
                self._under_way[number] = assignment
                places = range(first, first + calls)
                self._crew.send(Batch(number, assignment.deaths + 1, places, [], assignment.sealed))
        for assignment in list(itertools.islice(self._waiting, self._crew.capacity)):
            if not self._pack(assignment):
                self._waiting.remove(assignment)

    def _pack(self, assignment: Assignment) -> bool:
        if assignment.sealed is None:
            try:
                assignment.sealed, assignment.needed = self._sender.pack(assignment.rest())
            except Exception as error:
                assignment.fail(error)
                self._over.append(assignment)
        return assignment.sealed is not None

    def _tell(self) -> None:
        over, self._over = self._over, []
        for assignment in over:
            assignment.resolve()

    def _fail(self, assignments: list[Assignment]) -> None:
        for assignment in assignments:
            assignment.fail(self._ending or WorkersUnavailable("the workers have ended"))
            assignment.resolve()

    # -- events -------------------------------------------------------------------------------------------------

    def _hear(self, events: list[Event]) -> None:
        for event in events:  # first, so that it is written before anybody knows that the call is over
            if isinstance(event, Printed):
                _write(event)
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Broken):
            what = event.failure
            raise WorkersUnavailable(f"no call can be run in a worker: {what.summary}\n\n{what.traceback}")
        if not isinstance(event, Finished | FinishedLarge | Failed | GivenBack):
            return  # written already; or a report, which has nowhere to go
        assignment = self._under_way.get(event.batch)
        if assignment is None:
            return  # what a dead worker had not begun: it is sent again with what it died of
        was_over = assignment.is_over
        comes_back = self._note(assignment, event)
        if assignment.is_over and not was_over:
            self._over.append(assignment)
        if comes_back or assignment.done == assignment.until:
            del self._under_way[event.batch]
            if not assignment.is_over:
                assignment.sealed = None
                self._waiting.appendleft(assignment)

    @staticmethod
    def _note(assignment: Assignment, event: Finished | FinishedLarge | Failed | GivenBack) -> bool:
        """Write down what has become of the next calls; True where the rest is to be sent again."""
        if isinstance(event, Finished):
            for body in event.bodies:
                assignment.add(pickle.loads(body))
        elif isinstance(event, FinishedLarge):
            assignment.add(parcel.unpack(event.memory))
        elif isinstance(event, GivenBack):
            assignment.one_by_one |= event.apart
            return True
        elif event.failure.kind == "died" and not assignment.is_over:
            assignment.deaths += 1
            if assignment.deaths < DEATHS:
                return True
            assignment.failed(event)
        else:
            assignment.failed(event)
        return False


def _crew(shape: Shape, folder: str) -> LocalCrew:
    try:
        initializer = parcel.pack((shape.initializer, shape.initargs)).to_bytes()
    except Exception as error:
        raise BadCall(
            f"initializer={shape.initializer!r}, initargs={shape.initargs!r} cannot be sent to a worker: "
            f"{type(error).__name__}: {error}"
        ) from error
    authkey = bytes(multiprocessing.current_process().authkey)
    beginning = Beginning(shape.worker_variables(), shape.threads, authkey, initializer)
    # Each worker seeds itself, once; the seed of the job is for here().rng.
    job = Job(int.from_bytes(os.urandom(4), "little"), folder, True, (), seeds_globals=False)
    seats = plan(shape.jobs, shape.threads, shape.gpus)
    return LocalCrew(load(Caller(beginning)), job, seats, shape.around)


def _write(printed: Printed) -> None:
    stream = getattr(sys, printed.stream)
    with contextlib.suppress(ValueError, OSError, AttributeError):  # closed, or there is none
        stream.write(printed.text)
        stream.flush()
