"""What a worker process does, forked or spawned: take the seat, load the job, run batches, say what became of them.

in   order {...}                         the seat, and the caller's surroundings
     job Job, parcel                     the function, and what every task needs
     batch id attempt indices, items     run these, one after the other
out  ready stays                         the function is loaded; `stays` where one task alone does not end this process
     (slate) each small result
     look                                there is something on the slate
     large seconds, parcel               a result that is too long for the slate
     failed seconds Failure
     reports [...]                       from here().report
     rest id place                       the batch took long: from `place` on, somebody else may run it
     apart id                            an item cannot be unpickled: send them one by one
     leaving                             this process has done its part
     broken Failure                      the function cannot be loaded at all
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenfold.machine.memory import private
from tenfold.nursery import alone, client, groups
from tenfold.nursery.slate import LARGEST, OPENING, Slate
from tenfold.nursery.surroundings import Surroundings
from tenfold.nursery.wire import Closed, Wire
from tenfold.work import folders, parcel
from tenfold.work.outcome import Failure
from tenfold.work.run import Job, Runner, raised, unsendable
from tenfold.work.settle import settle

LOOK_EVERY = 0.002  # a wake-up costs the caller about 20 us: 1 % at this rate
REPORT_EVERY = 0.05
WEIGH_EVERY = 0.05
FASTEST_PRINT = 5e-6  # seconds; a task that took less has printed nothing, and is not worth a flush
WORTH_WEIGHING = 0.001  # seconds; asking for the peak takes a microsecond
GIVE_BACK_AFTER = 0.25  # a batch is meant to take a hundredth of a second; the rest of a slow one is shared out again
INLINE = 1 << 20  # a longer parcel travels as shared memory, not through the socket


def live_forked(wire: int, out: int, err: int, slate: int, *, nursery_handle: int, nursery: int) -> None:
    """The whole life of a worker that the nursery has just forked. Does not return."""
    os.setsid()
    groups.die_with(nursery)
    client.inherit(nursery_handle)
    _take_outputs(out, err)
    _live(wire, slate, loaded_threads=1)


def live_spawned(wire: int, out: int, err: int, slate: int, *, life: int) -> None:
    """The whole life of a worker that is a fresh interpreter. Does not return."""
    os.setsid()
    scratch: list[str] = []
    threading.Thread(target=_die_with_caller, args=(life, scratch), daemon=True).start()
    _take_outputs(out, err)
    _live(wire, slate, loaded_threads=None, scratch=scratch)


def _die_with_caller(life: int, scratch: list[str]) -> None:
    os.read(life, 1)  # returns when the caller's end closes, and the kernel does that even on SIGKILL
    folders.remove_and_end(scratch)
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)


def _live(wire_handle: int, slate_handle: int, *, loaded_threads: int | None, scratch: list[str] | None = None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who decides what becomes of us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # where memory runs out, a worker goes before its caller
    wire = Wire(socket.socket(fileno=wire_handle))
    slate = Slate(slate_handle)
    try:
        (_, order), _ = wire.receive()
        if scratch is not None and order["scratch"]:
            scratch.append(order["scratch"])
        around: Surroundings = order["around"]
        sys.path[:] = around.path
        importlib.invalidate_caches()  # modules that were written since the nursery started
        sys.argv[:] = around.arguments
        with contextlib.suppress(OSError):  # the caller's folder is gone: stay where we are
            os.chdir(around.folder)
        settle(order["seat"], around.environment, loaded_threads=loaded_threads)
        (_, job, content), handles = wire.receive()
        Worker(wire, slate, order).work(job, content, handles)
    except Closed:
        if scratch is not None:
            signal.pause()  # whoever closed it kills us with all that we started: the caller, or `_die_with_caller`
    _flush()
    os._exit(0)


def _flush() -> None:
    with contextlib.suppress(Exception):  # a task may have closed or replaced them
        sys.stdout.flush()
        sys.stderr.flush()


def _take_outputs(out: int, err: int) -> None:
    """Everything that this process prints, from Python or from C, goes to the caller."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()  # a segmentation fault leaves a Python traceback in the output


class Worker:
    """One worker's loop over batches."""

    def __init__(self, wire: Wire, slate: Slate, order: dict[str, Any]) -> None:
        self._wire = wire
        self._slate = slate
        self._alone: bool = order["alone"]
        self._retire_above: int = order["retire_above"]
        self._seat = order["seat"]
        self._looked = 0.0
        self._waiting = False  # something is on the slate that the caller has not been told of
        self._reports: list[tuple[int, int, int, dict[str, float], float]] = []
        self._reported = 0.0
        self._at_start = 0 if self._alone else private(os.getpid())
        self._weighed = 0.0
        self._lock = threading.Lock()  # a task's own threads may report

    def _send(self, message: tuple[Any, ...], handles: Sequence[int] = ()) -> None:
        with self._lock:
            self._wire.send(message, handles)

    def work(self, job: Job, content: bytes | None, handles: list[int]) -> None:
        """Load the function, then run batches until the caller closes, or until this process should be replaced."""
        try:
            function = _open(handles, content, writable=False)
            runner = Runner(function, job, self._seat, self._post, whole_process=True)
        except BaseException as error:
            self._send(("broken", raised(error)))
            return
        in_children = self._alone and alone.can_fork(self._seat)
        if in_children:
            groups.adopt_orphans()  # whatever a task leaves behind goes with it
        self._send(("ready", in_children))
        with runner:
            while True:
                (_, *batch), handles = self._wire.receive()
                if in_children:
                    self._run_in_child(runner, batch, handles)
                    continue
                self._run(runner, batch, handles)
                if self._alone or self._grew():
                    self._send(("leaving",))
                    return

    def _run_in_child(self, runner: Runner, batch: list[Any], handles: list[int]) -> None:
        def task() -> None:
            client.inherit_again()
            self._run(runner, batch, handles)

        status = alone.run(task)
        for handle in handles:
            os.close(handle)
        if status != 0 or self._slate.seen() is not None:  # it exited in the middle of a task
            alone.die_like(status)

    def _cannot_open(self, batch: int, indices: Sequence[int], error: BaseException) -> None:
        """An item cannot be unpickled here. Which one is found by having them sent one by one."""
        if len(indices) > 1:
            self._send(("apart", batch))
            return
        failure = raised(error)
        self._send(("failed", 0.0, replace(failure, kind="unsendable", summary=f"its item: {failure.summary}")))

    def _run(self, runner: Runner, message: list[Any], handles: list[int]) -> None:
        batch, attempt, indices, content = message
        self._slate.doing(batch, OPENING)  # unpickling may run anything, and die of it
        try:
            items = _open(handles, content, writable=True)
        except BaseException as error:
            self._slate.idle()
            self._cannot_open(batch, indices, error)
            return
        together = runner.gather(indices, attempt, items)
        began = time.perf_counter()
        last = len(indices) - 1
        for place, index in enumerate(indices):
            if self._seat.memory is not None:
                self._slate.stand_on(private(os.getpid()))
            self._slate.doing(batch, place)
            ok, value, seconds = runner.run(index, attempt, items[place])
            items[place] = None
            if seconds > WORTH_WEIGHING:
                self._slate.weigh(peak())
            if seconds > FASTEST_PRINT:
                _flush()
            if self._reports:
                self._send_reports()
            if ok:
                self._finish(batch, place, value, seconds)
            else:
                self._send(("failed", seconds, value))
            now = time.perf_counter()
            if self._waiting and (place == last or now - self._looked > LOOK_EVERY):
                self._look(now)
            if now - began > GIVE_BACK_AFTER and place != last and not together:
                self._look(now)
                self._slate.idle()
                self._send(("rest", batch, place + 1))
                return
        self._slate.idle()

    def _look(self, now: float) -> None:
        self._send(("look",))
        self._looked, self._waiting = now, False

    def _finish(self, batch: int, place: int, value: Any, seconds: float) -> None:
        try:
            packed = parcel.pack(value, beside=LARGEST)  # what fits on the slate goes there in one piece
        except BaseException as error:
            self._send(("failed", seconds, unsendable(f"its result ({type(value).__name__})", error)))
            return
        is_small = not packed.buffers and len(packed.body) <= LARGEST
        if is_small and self._slate.put(batch, place, seconds, packed.body):
            self._waiting = True
            return
        if packed.size <= INLINE:
            self._send(("large", seconds, packed.to_bytes()))
            return
        try:
            handle = parcel.shared(packed)
        except OSError as error:
            text = f"its result of {packed.size} bytes does not fit in shared memory: {error}"
            self._send(("failed", seconds, Failure("memory", text)))
            return
        self._send(("large", seconds, None), [handle])
        os.close(handle)

    # -- reports ------------------------------------------------------------------------------------------------

    def _post(self, index: int, attempt: int, step: int, values: dict[str, float], at: float) -> None:
        self._reports.append((index, attempt, step, values, at))
        if at - self._reported > REPORT_EVERY:
            self._send_reports()

    def _send_reports(self) -> None:
        reports, self._reports = self._reports, []
        self._reported = time.time()
        self._send(("reports", reports))

    def _grew(self) -> bool:
        """Memory that frameworks never give back: a fresh process is cheap."""
        now = time.perf_counter()
        if now - self._weighed < WEIGH_EVERY and self._seat.memory is None:
            return False
        self._weighed = now
        return private(os.getpid()) - self._at_start > self._retire_above


def peak() -> int:
    """Most resident bytes of this process so far."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _open(handles: list[int], content: Any, *, writable: bool) -> Any:
    """What a message carries: a parcel in shared memory where it has a descriptor, else in the message itself."""
    if not handles:
        return parcel.unpack(bytearray(content), writable=writable)
    parcel.wait_for(handles[0])
    memory = parcel.attach(handles[0])
    os.close(handles[0])
    return parcel.unpack(memory, writable=writable)
