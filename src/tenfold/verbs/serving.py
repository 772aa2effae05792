"""In the caller: has the engine run the parameter servers of a training, beside its workers.

A crew of their own, with seats that hold no core, GPU or memory, so that they have room wherever workers have; one on
each machine, before there is a second on one. One that is lost is started again, as often as a worker would be.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from itertools import cycle

from tenfold.engines import Batch, Broken, Crew, Event, Failed, Finished, GivenBack
from tenfold.plan.choose import Plan
from tenfold.plan.needs import Needs
from tenfold.plan.seats import Seat
from tenfold.training.roll import Roll
from tenfold.training.server import Server
from tenfold.verbs.call import Call

TICK = 0.1


class Servers:
    """Of one training; none, until the roll asks for them."""

    def __init__(self, call: Call, workers: int) -> None:
        self._call = call
        self._workers = workers
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._sent: dict[int, int] = {}  # batch -> its server
        self._losses: Counter[int] = Counter()

    def start(self, roll: Roll, count: int) -> None:
        """Called by the roll; does not wait for them."""
        self._thread = threading.Thread(target=self._keep, args=(roll, count), daemon=True, name="tenfold-servers")
        self._thread.start()

    def close(self) -> None:
        """End them."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self, roll: Roll, count: int) -> None:
        call = self._call
        try:
            job = replace(call.job, frameworks=(), timeout=None)
            crew = call.engine.open(Server(roll.ticket), job, self._plan(count))
        except Exception as error:
            roll.fail(f"no parameter server can be started: {type(error).__name__}: {error}")
            return
        try:
            for part in range(count):
                self._send(crew, part)
            while not self._over.is_set():
                for event in crew.receive(TICK):
                    self._take(crew, event)
        except Exception as error:
            roll.fail(f"the parameter servers are lost: {type(error).__name__}: {error}")
        finally:
            crew.close()

    def _plan(self, count: int) -> Plan:
        machines = cycle(dict.fromkeys(seat.machine for seat in self._call.plan.seats))
        seats = tuple(Seat(part, 0, (), machine=name) for part, name in zip(range(count), machines, strict=False))
        return Plan(seats, False, (), Needs(cpus=0), count)

    def _send(self, crew: Crew, part: int) -> None:
        number = len(self._sent) + 1
        self._sent[number] = part
        attempt = self._losses[part] + 1
        crew.send(Batch(number, attempt, [self._workers + part], [part]))

    def _take(self, crew: Crew, event: Event) -> None:
        if isinstance(event, Broken):
            raise RuntimeError(event.failure.summary)
        if isinstance(event, GivenBack):  # with its node, or before it began
            self._again(crew, self._sent[event.batch], "its machine is gone")
        elif isinstance(event, Failed):
            self._again(crew, self._sent[event.batch], event.failure.summary)
        elif isinstance(event, Finished):
            return  # the training is over

    def _again(self, crew: Crew, part: int, why: str) -> None:
        self._losses[part] += 1
        policy = self._call.policy
        if self._losses[part] > policy.retries + policy.forgiven:
            raise RuntimeError(f"server {part} was lost {self._losses[part]} times, the last time because {why}")
        self._send(crew, part)
