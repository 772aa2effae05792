"""Whatever joblib backend is configured (loky by default), with seats settled inside joblib's own workers.

Tasks run in processes that joblib started and keeps, so nothing can be killed from outside: a timeout is an alarm in
the task, memory is not limited, and a task cannot have a process of its own. When a worker dies, joblib ends them
all; then the batches that were under way are run again one at a time, so that the one to blame is found and the
others lose nothing.
"""

from __future__ import annotations

import os
import queue
import sys
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from tenfold import machine
from tenfold.engines import Batch, Broken, Event, Failed, Finished, FinishedLarge, GivenBack, Reported, refuse
from tenfold.machine import Machine
from tenfold.machine.installed import missing
from tenfold.plan.choose import Abilities, Plan
from tenfold.work import guest, parcel
from tenfold.work.outcome import Failure, Report
from tenfold.work.run import Job


def engine(address: str) -> JoblibEngine:
    return JoblibEngine()


class JoblibEngine:
    """The joblib backend that is configured where the engine is made."""

    def __init__(self) -> None:
        try:
            from joblib.parallel import get_active_backend
        except ImportError as error:
            raise missing("joblib", "joblib") from error
        backend, _ = get_active_backend()
        self._shares_memory = bool(getattr(backend, "supports_sharedmem", False))
        self.abilities = Abilities(
            parallel=True,
            processes=not self._shares_memory,
            stops="never" if self._shares_memory else "alarm",
            limits_memory=False,
            isolates=False,
            leases_gpus=not self._shares_memory,
            seconds_per_batch=0.002,
        )

    def machines(self) -> list[Machine]:
        return [machine.look()]

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> JoblibCrew:
        return JoblibCrew(function, job, plan, shares_memory=self._shares_memory)


class JoblibCrew:
    """Batches as calls of a joblib backend."""

    def __init__(self, function: Callable[[Any], Any], job: Job, plan: Plan, *, shares_memory: bool) -> None:
        self.capacity = len(plan.seats)
        self._arrived: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._under_way: dict[int, Batch] = {}
        self._suspects: deque[Batch] = deque()  # were under way when a worker died
        self._waiting: deque[Batch] = deque()
        self._events: list[Event] = []
        self._handles: list[int] = []
        self._together = job.together
        self._invitation = self._invite(function, job, plan, shares_memory)
        self._parallel = self._start()

    def _invite(self, function: Callable[[Any], Any], job: Job, plan: Plan, shares_memory: bool) -> guest.Invitation:
        packed = parcel.pack_function(function)
        content: str | bytes
        claims = None
        if sys.platform == "linux" and not shares_memory:
            # Another process of this machine opens our nameless files through /proc: nothing to clean up, ever.
            content = self._named(parcel.shared(packed))
            claims_file = os.memfd_create("tenfold-claims")
            os.ftruncate(claims_file, 8 * len(plan.seats))
            claims = self._named(claims_file)
        else:
            content = packed.to_bytes()
        folder = machine.current_folder()
        environment = {**os.environ, **dict(job.variables)}
        return guest.Invitation(uuid.uuid4().hex, content, job, plan.seats, environment, folder, claims)

    def _named(self, handle: int) -> str:
        self._handles.append(handle)
        return f"/proc/{os.getpid()}/fd/{handle}"

    def _start(self) -> Any:
        import joblib

        # With one worker joblib would run tasks in this process; it keeps two, and we use one of them.
        parallel = joblib.Parallel(n_jobs=max(2, self.capacity))
        return parallel.__enter__()

    # -- the port -----------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        self._waiting.append(batch)
        self._submit()

    def receive(self, seconds: float) -> list[Event]:
        if not self._events:
            self._collect(seconds)
        self._submit()
        events, self._events = self._events, []
        return events

    def running(self) -> dict[int, float]:
        return {}

    def stop(self, batch: int, failure: Failure) -> None:
        """Nothing to do: a task stops itself by its alarm."""

    def close(self) -> None:
        if self._under_way:
            self._parallel._backend.abort_everything(ensure_ready=False)
        self._parallel.__exit__(None, None, None)
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()

    # -- to joblib and back -------------------------------------------------------------------------------------

    def _submit(self) -> None:
        """Suspects go one at a time, with nothing beside them; everything else as it comes."""
        while self._suspects and not self._under_way:
            self._call(self._suspects.popleft())
        while self._waiting and not self._suspects:
            self._call(self._waiting.popleft())

    def _call(self, batch: Batch) -> None:
        try:
            items = parcel.pack(batch.items).to_bytes()
        except Exception as error:
            self._events.append(refuse(batch, 0, error))
            return
        self._under_way[batch.id] = batch
        backend = self._parallel._backend
        call = _Call(self._invitation, batch.attempt, batch.indices, items)
        try:
            backend.submit(call, callback=lambda out: self._answer(backend, batch.id, out))
        except Exception as error:  # the executor broke since the last call
            self._arrived.put((batch.id, error))

    def _answer(self, backend: Any, batch: int, out: Any) -> None:
        """Called by joblib in a thread of its own."""
        try:
            answer = backend.retrieve_result_callback(out)
        except BaseException as error:
            answer = error
        self._arrived.put((batch, answer))

    def _collect(self, seconds: float) -> None:
        try:
            batch, answer = self._arrived.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        self._take(batch, answer)
        while not self._arrived.empty():
            self._take(*self._arrived.get())

    def _take(self, number: int, answer: Any) -> None:
        batch = self._under_way.pop(number, None)
        if batch is None:
            return  # told of already, when its worker died
        if isinstance(answer, BaseException):
            self._worker_died(batch, answer)
        elif isinstance(answer, Failure):
            self._events.append(Broken(answer))
        else:
            self._tell(batch, answer)

    def _tell(self, batch: Batch, done: guest.Done) -> None:
        if done.reports:
            self._events.append(Reported([Report(*report) for report in done.reports]))
        who = (done.peak, done.seat, done.worker)
        seconds: list[float] = []
        bodies: list[bytes] = []
        for took, body, memory, failure in done.entries:
            if body is not None:
                seconds.append(took)
                bodies.append(body)
                continue
            if bodies:
                self._events.append(Finished(batch.id, seconds, bodies, *who))
                seconds, bodies = [], []
            if memory is not None:
                self._events.append(FinishedLarge(batch.id, took, memory, *who))
            elif failure is not None:
                self._events.append(Failed(batch.id, took, failure, *who))
        if bodies:
            self._events.append(Finished(batch.id, seconds, bodies, *who))

    def _worker_died(self, batch: Batch, error: BaseException) -> None:
        """joblib has ended all its workers. Alone, the batch is to blame; otherwise everyone is suspected.

        Of those that wait for each other, none can be tried alone: all have failed.
        """
        together = [batch, *self._under_way.values()]
        self._under_way.clear()
        self._restart()
        if len(together) > 1 and not self._together:
            self._suspects.extend(together)
        elif len(batch.indices) > 1:
            self._events.append(GivenBack(batch.id, apart=True))
        else:
            text = " ".join(str(error).split())
            failure = Failure("died", f"its process ended under it: {type(error).__name__}: {text}")
            self._events += [Failed(one.id, 0.0, failure, 0, 0, "", lost=self._together) for one in together]

    def _restart(self) -> None:
        self._parallel._backend.abort_everything(ensure_ready=False)
        self._parallel.__exit__(None, None, None)
        self._parallel = self._start()


class _Call:
    """A batch as a callable without arguments, which is what a joblib backend takes."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __call__(self) -> guest.Done | Failure:
        return guest.run(*self._arguments)
