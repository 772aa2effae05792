"""This machine, without a server: workers forked from the nursery, one per seat.

    send ──> the worker with the least to do ──(wire)──> worker
    receive <── slates, wires, outputs, exits <──────────┘

A worker is one process on one seat. It is started when there is a batch for it, and replaced when it dies, when it
leaves because its memory grew, and after every task where the plan isolates tasks.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tenfold import machine
from tenfold.engines import Batch, Broken, Event, Failed, Finished, FinishedLarge, GivenBack, Printed, Reported, refuse
from tenfold.errors import WorkersUnavailable
from tenfold.machine import Machine
from tenfold.nursery import groups, leases, notice
from tenfold.nursery.forking import Forking, NurseryLost
from tenfold.nursery.load import Load, load
from tenfold.nursery.slate import OPENING
from tenfold.nursery.spawning import Spawning
from tenfold.nursery.starter import Exited, Refused, Started, Starter
from tenfold.nursery.surroundings import Surroundings, surroundings
from tenfold.nursery.wire import Closed
from tenfold.nursery.worker import Worker
from tenfold.plan.choose import Abilities, Plan
from tenfold.work import parcel
from tenfold.work.exits import describe
from tenfold.work.outcome import Failure, Report
from tenfold.work.run import Job

POLL = 0.05  # how often slates are read and memory is checked without being woken
GONE_WITHIN = 5.0  # seconds that a killed worker may take to go; GPU drivers are slow at it
STILLBORN_LIMIT = 3  # workers in a row that may die before their first task


def engine(address: str) -> LocalEngine:
    return LocalEngine()


class LocalEngine:
    """Processes of this machine."""

    abilities = Abilities(
        parallel=True,
        processes=True,
        stops="kill",
        limits_memory=True,
        isolates=True,
        leases_gpus=True,
        seconds_per_batch=0.0002,
    )

    def machines(self) -> list[Machine]:
        return [machine.look()]

    def expect(self, modules: Iterable[str]) -> None:
        """Have the nursery import them while the caller still makes its plan and its journal."""
        notice.tell(modules)

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> LocalCrew:
        return LocalCrew(load(function), job, plan, surroundings(job.variables))


class LocalCrew:
    """The workers of one call."""

    def __init__(self, load: Load, job: Job, plan: Plan, around: Surroundings) -> None:
        self._job = job
        self._plan = plan
        self._load = load
        self._around = around
        self._open = True
        self._selector = selectors.DefaultSelector()
        self._starter = self._new_starter()
        self._spawner: Starter | None = None
        self._free = deque(plan.seats)
        self._workers: dict[int, Worker] = {}
        self._waiting: deque[Batch] = deque()
        self._events: list[Event] = []
        self._names = self._stillborn = self._nurseries_lost = 0
        self._last_poll = 0.0
        # A worker that has grown by half of its part of the machine is replaced after its task.
        self._retire_above = machine.look().memory // (2 * len(plan.seats))
        self.capacity = len(plan.seats)
        self._ahead = 0 if plan.isolate else min(self.capacity, job.tasks or 0)

    # -- the port -----------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        self._waiting.append(batch)
        self._place()
        self._start_ahead()

    def receive(self, seconds: float) -> list[Event]:
        self._poll()
        if not self._events:
            for key, _ in self._selector.select(max(0.0, min(seconds, POLL))):
                key.data()
            self._poll()
        self._place()
        events, self._events = self._events, []
        return sorted(events, key=lambda event: not isinstance(event, Reported))  # the last result may end the call

    def wake_with(self, handle: int) -> None:
        """Have `receive` return when there is something to read from `handle`."""
        self._selector.register(handle, selectors.EVENT_READ, lambda: None)

    def running(self) -> dict[int, float]:
        found = {}
        for worker in self._workers.values():
            seen = worker.slate.seen()
            if seen is not None and worker.verdict is None:
                found[seen[0]] = seen[2]
        return found

    def stop(self, batch: int, failure: Failure) -> None:
        for worker in self._workers.values():
            if worker.batches and worker.batches[0].id == batch and worker.verdict is None:
                self._kill(worker, failure)

    def close(self) -> None:
        self._let_go_of_gpus()
        self._starter.close()
        if self._spawner is not None:
            self._spawner.close()
        for worker in self._workers.values():
            leases.give(worker.seat)
            worker.close()
        self._workers.clear()
        self._selector.close()
        if self._open:
            self._load.close()
        self._open = False

    def _let_go_of_gpus(self) -> None:
        """Wait until workers that hold GPUs are gone: the next call may lease them only then."""
        holders = [worker for worker in self._workers.values() if worker.seat.gpus]
        for worker in holders:
            self._kill(worker, Failure("died", "the call ended"))
        deadline = time.monotonic() + GONE_WITHIN
        with contextlib.suppress(WorkersUnavailable):
            while any(worker.name in self._workers for worker in holders) and time.monotonic() < deadline:
                self._selector.select(POLL)
                self._hear_starter()

    # -- placing batches ----------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Give each waiting batch to an idle worker, a new worker, or the one with the least to do."""
        while self._waiting:
            worker = self._pick()
            if worker is None:
                return
            batch = self._waiting.popleft()
            self._hand_over(worker, batch)

    def _pick(self) -> Worker | None:
        ready = [worker for worker in self._workers.values() if not worker.leaving and worker.verdict is None]
        if self._plan.isolate:
            ready = [worker for worker in ready if not worker.batches]
        idle = next((worker for worker in ready if not worker.batches), None)
        worker = idle or self._start_worker()
        if worker is not None:
            return worker
        ready = [worker for worker in ready if worker.name in self._workers]  # the nursery may just have been lost
        return min(ready, key=lambda worker: len(worker.batches), default=None)

    def _start_ahead(self) -> None:
        """The other workers too, where tasks will come for them: a call may wait for what its first task settles."""
        ahead, self._ahead = self._ahead, 0
        while ahead > len(self._workers) and self._start_worker() is not None:
            pass

    def _hand_over(self, worker: Worker, batch: Batch) -> None:
        try:
            packed = batch.sealed or parcel.pack(batch.items)
        except Exception as error:
            self._events.append(refuse(batch, worker.seat.index, error))
            return
        worker.leaving = self._plan.isolate and not worker.stays
        worker.hand(batch, packed)
        self._listen(worker)

    # -- starting and ending workers ----------------------------------------------------------------------------

    def _new_starter(self) -> Starter:
        scratch = self._job.folder if self._job.scratch else None
        wants_spawn = os.environ.get("TENFOLD_START") == "spawn" or sys.platform != "linux"
        modules = self._load.modules
        found = Spawning(modules, scratch) if wants_spawn else Forking(modules, scratch, self._around)
        if found.handle is not None:
            self._selector.register(found.handle, selectors.EVENT_READ, lambda: None)  # see _poll
        return found

    def _start_worker(self) -> Worker | None:
        seat = next((seat for seat in self._free if leases.take(seat)), None)
        if seat is None:
            return None
        self._free.remove(seat)
        self._names += 1
        worker = Worker(self._names, seat)
        self._workers[worker.name] = worker
        order = {
            "seat": seat,
            "around": self._around,
            "alone": self._plan.isolate,
            # Where memory is limited, what a task leaves behind in its worker must not weigh on the next one.
            "retire_above": min(self._retire_above, (seat.memory or self._retire_above * 4) // 4),
            "scratch": self._job.folder if self._job.scratch else None,
        }
        worker.enlist(order, self._job, self._load)
        for output in worker.outputs:
            self._selector.register(output.handle, selectors.EVENT_READ, lambda: self._read_outputs(worker))
        self._listen(worker)
        worker.starter = self._starter
        try:
            self._starter.start(worker.name, worker.theirs)
        except NurseryLost as lost:
            self._replace_nursery(lost)
            return None
        return worker

    def _listen(self, worker: Worker) -> None:
        """Wait for what the worker sends, and for room to send it what its socket could not take yet."""
        writes = selectors.EVENT_WRITE if worker.wire.unsent else 0
        events = selectors.EVENT_READ | writes
        try:
            if self._selector.get_key(worker.wire.socket).events != events:
                self._selector.modify(worker.wire.socket, events, lambda: self._read_wire(worker))
        except KeyError:
            self._selector.register(worker.wire.socket, events, lambda: self._read_wire(worker))

    def _kill(self, worker: Worker, failure: Failure) -> None:
        worker.verdict = failure
        if worker.starter is not None:
            with contextlib.suppress(NurseryLost):
                worker.starter.kill(worker.name)

    def _hear_starter(self) -> None:
        try:
            news = self._starter.events()
        except NurseryLost as lost:
            self._replace_nursery(lost)
            return
        if self._spawner is not None:
            news += self._spawner.events()
        for event in news:
            worker = self._workers.get(event.name)
            if worker is None:
                continue
            if isinstance(event, Started):
                worker.pid = event.pid
                worker.close_theirs()
            elif isinstance(event, Refused):
                self._spawn_instead(worker)
            elif isinstance(event, Exited):
                self._bury(worker, event.status)

    def _spawn_instead(self, worker: Worker) -> None:
        if self._spawner is None:
            self._spawner = Spawning(self._load.modules, None)
        worker.starter = self._spawner
        self._spawner.start(worker.name, worker.theirs)

    def _replace_nursery(self, lost: NurseryLost) -> None:
        """The nursery was killed, and its workers with it: take a new one, and give back what they had."""
        self._nurseries_lost += 1
        if self._nurseries_lost >= STILLBORN_LIMIT:
            raise WorkersUnavailable(f"the nursery died {self._nurseries_lost} times; the last one wrote:\n{lost}")
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._starter.handle or -1)
        self._starter.close()
        self._starter = self._new_starter()
        for worker in [worker for worker in self._workers.values() if worker.starter is not self._spawner]:
            self._stillborn = 0
            groups.kill_rest(worker.pid)
            self._bury(worker, -signal.SIGKILL)

    def _bury(self, worker: Worker, status: int) -> None:
        """A worker is gone. Tell what it had finished, then what it was doing, then what it had not begun."""
        self._read_wire(worker)
        self._read_outputs(worker)
        running = worker.slate.seen()
        began = worker.ready
        del self._workers[worker.name]
        for handle in (worker.wire.fileno(), *[output.handle for output in worker.outputs]):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(handle)
        apart = running is not None and running[1] == OPENING and len(worker.batches[0].indices) > 1
        if running is not None and not apart and worker.is_at(*running[:2]):
            failure = worker.verdict or describe(status, worker.tail, worker.slate.peak)
            lost = worker.verdict is None and status == -signal.SIGKILL
            self._events.append(
                Failed(running[0], running[2], failure, worker.slate.peak, worker.seat.index, worker.label, lost)
            )
            worker.advance(1)
        self._events += [GivenBack(batch.id, apart=apart) for batch in worker.batches]
        leases.give(worker.seat)
        self._free.append(worker.seat)
        worker.close()
        self._stillborn = 0 if began else self._stillborn + 1
        if self._stillborn >= STILLBORN_LIMIT:
            text = describe(status, worker.tail, 0)
            raise WorkersUnavailable(
                f"{STILLBORN_LIMIT} workers in a row died before their first task: {text.summary}\n{text.output}"
            )

    # -- hearing from workers -----------------------------------------------------------------------------------

    def _poll(self) -> None:
        self._hear_starter()
        now = time.monotonic()
        if now - self._last_poll < POLL:
            return
        self._last_poll = now
        for worker in list(self._workers.values()):
            self._read_wire(worker)
            excess = worker.excess() if worker.verdict is None else None
            if excess is not None:
                self._kill(worker, excess)

    def _read_outputs(self, worker: Worker) -> None:
        for output in worker.outputs:
            text, ended = output.read(all_of_it=not worker.batches)
            if text:
                self._events.append(Printed(text, output.stream))
            if ended:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(output.handle)

    def _read_wire(self, worker: Worker) -> None:
        with contextlib.suppress(Closed):
            worker.wire.flush()
        has_more = True
        while has_more:  # what a task has reported was there before its result
            for message, handles in worker.wire.arrived():
                self._drain(worker)
                self._hear(worker, message, handles)
            has_more = self._drain(worker)
        if worker.wire.ended:
            with contextlib.suppress(KeyError):
                self._selector.unregister(worker.wire.socket)
        else:
            self._listen(worker)

    def _hear(self, worker: Worker, message: tuple[Any, ...], handles: list[int]) -> None:
        kind, *rest = message  # "look" asks for nothing more: the slate has been read by now
        if kind == "ready":
            worker.ready = True
            worker.leaving &= not rest[0]
            worker.stays = rest[0]
        elif kind == "large":
            seconds, inline = rest
            memory = parcel.load(handles[0]) if handles else inline
            for handle in handles:
                os.close(handle)
            batch = worker.batches[0].id
            self._events.append(
                FinishedLarge(batch, seconds, memory, worker.slate.peak, worker.seat.index, worker.label)
            )
            worker.advance(1)
        elif kind == "failed":
            seconds, failure = rest
            batch = worker.batches[0].id
            self._events.append(Failed(batch, seconds, failure, worker.slate.peak, worker.seat.index, worker.label))
            worker.advance(1)
        elif kind == "reports":
            self._events.append(Reported([Report(*report) for report in rest[0]]))
        elif kind in ("rest", "apart"):
            self._events.append(GivenBack(rest[0], apart=kind == "apart"))
            worker.drop_batch()
        elif kind == "leaving":
            worker.leaving = True
        elif kind == "broken":
            self._events.append(Broken(rest[0]))

    def _drain(self, worker: Worker) -> bool:
        """Read the slate, as far as results follow each other: a failure between them comes by the wire."""
        before = len(self._events)
        while worker.batches:
            batch = worker.batches[0]
            seconds, bodies = worker.slate.take(batch.id, worker.place)
            if not bodies:
                break
            self._events.append(Finished(batch.id, seconds, bodies, worker.slate.peak, worker.seat.index, worker.label))
            worker.advance(len(bodies))
            if not worker.batches:
                self._read_outputs(worker)  # what its last task printed comes with it, or never
        return len(self._events) > before
