"""One task after the other in the caller's own process: for debugging, and as the measure of all other engines.

Nothing is pickled and breakpoints work. The caller's threads and random numbers are given back afterwards.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tenfold import machine
from tenfold.engines import Batch, Event, Failed, Finished, FinishedLarge, Reported
from tenfold.machine import Machine
from tenfold.plan.choose import Abilities, Plan
from tenfold.work import parcel, seeds
from tenfold.work.outcome import Failure, Report
from tenfold.work.run import Job, Runner, unsendable
from tenfold.work.settle import borrowed


def engine(address: str) -> SerialEngine:
    return SerialEngine()


class SerialEngine:
    """The caller's own process."""

    def __init__(self) -> None:
        in_main_thread = threading.current_thread() is threading.main_thread()
        self.abilities = Abilities(
            parallel=False,
            processes=False,
            stops="alarm" if in_main_thread else "never",  # Python hands signals to the main thread alone
            limits_memory=False,
            isolates=False,
            leases_gpus=True,  # one task at a time cannot collide with another
            seconds_per_batch=0.0002,
        )

    def machines(self) -> list[Machine]:
        return [machine.look()]

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> SerialCrew:
        return SerialCrew(function, job, plan)


class SerialCrew:
    """Runs one batch in each `receive`."""

    capacity = 1

    def __init__(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> None:
        self._batches: deque[Batch] = deque()
        self._reports: list[Report] = []
        self._seat = plan.seats[0]
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(seeds.restored())
        self._runner = self._stack.enter_context(Runner(function, job, self._seat, self._post, whole_process=False))
        self._stack.enter_context(borrowed(self._seat))

    def send(self, batch: Batch) -> None:
        self._batches.append(batch)

    def receive(self, seconds: float) -> list[Event]:
        if not self._batches:
            return []
        batch = self._batches.popleft()
        events: list[Event] = []
        self._runner.gather(batch.indices, batch.attempt, batch.items)
        for index, item in zip(batch.indices, batch.items, strict=True):
            events.append(self._run(batch, index, item))
            if self._reports:
                events.append(Reported(self._reports))
                self._reports = []
        return events

    def _run(self, batch: Batch, index: int, item: Any) -> Event:
        ok, value, took = self._runner.run(index, batch.attempt, item)
        who = (0, self._seat.index, self._worker)
        if not ok:
            return Failed(batch.id, took, value, *who)
        try:
            packed = parcel.pack(value)
        except Exception as error:
            return Failed(batch.id, took, unsendable(f"its result ({type(value).__name__})", error), *who)
        if packed.buffers:
            return FinishedLarge(batch.id, took, packed.to_bytes(), *who)
        return Finished(batch.id, [took], [packed.body], *who)

    def running(self) -> dict[int, float]:
        return {}

    def stop(self, batch: int, failure: Failure) -> None:
        """Nothing to do: a task stops itself by its alarm, and none runs while this is called."""

    def close(self) -> None:
        self._stack.close()

    def _post(self, index: int, attempt: int, step: int, values: dict[str, float], at: float) -> None:
        self._reports.append(Report(index, attempt, step, values, at))
