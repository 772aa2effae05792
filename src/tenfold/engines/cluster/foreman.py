"""On a node: runs a caller's batches as the local engine does, and says what becomes of them.

Lives in a process of the cluster (a Dask worker, a Ray actor), which calls `tell` and `hear` on its event loop. A
thread of the foreman's own has the crew. It ends when it is told to, when its process ends, and when nobody has asked
for a while: then the caller is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import shutil
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenfold.engines import Batch, Event, FinishedLarge, stop_overdue
from tenfold.engines.cluster import bundle, content
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.errands import Errands, Filed
from tenfold.engines.local import LocalCrew
from tenfold.machine.host import host
from tenfold.nursery import client
from tenfold.nursery.load import Load
from tenfold.nursery.surroundings import SHARED, Surroundings, surroundings
from tenfold.plan.choose import Plan
from tenfold.plan.needs import Needs
from tenfold.plan.seats import Seat
from tenfold.work.parcel import Sealed
from tenfold.work.run import Job

HEARTBEAT = 1.0  # seconds after which `hear` answers in any case
GATHER = 0.005  # seconds between two answers at least: each costs this machine and the caller's more than a millisecond
CALLER_GONE = 20.0  # seconds without a question after which a foreman gives up
KEEP_WARM = 60.0  # seconds that the nursery and large content wait for the next call
TICK = 0.2
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Contract:
    """What a foreman must know before its first batch."""

    function: bytes | Notice
    """The parcel of the function, or where to find it."""
    modules: list[str]
    """What a nursery imports ahead of it."""
    own_modules: dict[str, bytes]
    """The user's own modules, as files."""
    job: Job
    """What every worker must know; its timeout is kept here, by killing."""
    seats: tuple[Seat, ...]
    """The caller's seats on this node."""
    isolate: bool
    """Each task gets a process of its own."""
    environment: dict[str, str]
    """The caller's: all of it for a node on the caller's machine, else what decides what an import does."""
    folder: str
    """The caller's current folder."""
    arguments: list[str]
    """The caller's `sys.argv`."""
    host: str
    """The caller's machine."""
    nursery: str | None
    """Where the caller's own nursery listens, for a node on the caller's machine."""


class Foreman:
    """One call's work on one node."""

    def __init__(self, contract: bytes, gpus: Sequence[str] = ()) -> None:
        """`gpus` are the devices that the cluster has given to this process, where it numbers them itself."""
        self._contract: Contract = pickle.loads(contract)
        self._seats = _with_devices(self._contract.seats, gpus)
        self._orders: deque[tuple[Any, ...]] = deque()
        self._events: list[Event | Filed] = []
        self._lock = threading.Lock()
        self._asked = self._answered = time.monotonic()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._fault: BaseException | None = None
        self._bell, self._bell_end = socket.socketpair()
        self._bell.setblocking(False)
        self._bell_end.setblocking(False)
        self._closing = False
        self._thread = threading.Thread(target=self._live, name="tenfold-foreman", daemon=True)
        self._thread.start()

    # -- what the caller asks for -------------------------------------------------------------------------------

    async def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        """("batch", id, attempt, indices, parcel, files) runs a batch; ("close",) ends everything."""
        self._orders.extend(orders)
        self._closing |= ("close",) in orders
        with contextlib.suppress(OSError):  # a full buffer has rung already, a closed one needs no bell
            self._bell_end.send(b"!")

    async def hear(self) -> list[Event | Filed]:
        """What has happened since the last call."""
        self._asked = time.monotonic()
        if not self._events and self._thread.is_alive():
            loop = asyncio.get_running_loop()
            waiting = loop.create_future()
            self._waiting = loop, waiting
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waiting, HEARTBEAT)
        if not self._closing:
            await asyncio.sleep(self._answered + GATHER - time.monotonic())  # at once, where that is over
        with self._lock:
            events, self._events = self._events, []
        self._asked = self._answered = time.monotonic()
        if not events and self._fault is not None:
            raise RuntimeError(f"{type(self._fault).__name__}: {self._fault}") from None
        return events

    async def close(self) -> None:
        """End everything, and wait until it is gone."""
        await self.tell([("close",)])
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 10)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _live(self) -> None:
        _started()
        own = Path(tempfile.mkdtemp(prefix="tenfold-own-"))
        try:
            bundle.unfold(self._contract.own_modules, own)
            errands = Errands(self._contract.job, is_here=self._contract.host == host())
            plan = Plan(self._seats, self._contract.isolate, (), Needs(), None)
            crew = LocalCrew(self._load(), replace(errands.job, timeout=None), plan, self._surroundings(own))
            try:
                crew.wake_with(self._bell.fileno())
                self._work(crew, errands)
            finally:
                crew.close()
                errands.close()
        except BaseException as error:
            self._fault = error
        finally:
            shutil.rmtree(own, ignore_errors=True)
            self._ring()
            self._bell.close()
            self._bell_end.close()
            _ended()

    def _load(self) -> Load:
        function = self._contract.function
        if isinstance(function, Notice):
            return Load(b"", content.take(function), self._contract.modules)
        return Load(function, None, self._contract.modules)

    def _surroundings(self, own: Path) -> Surroundings:
        """Those of this node, with what the caller's results depend on."""
        here = surroundings()
        folder = self._contract.folder if os.path.isdir(self._contract.folder) else here.folder
        path = [str(own), *here.path]
        arguments, scratch = self._contract.arguments, (str(own),)
        nursery = self._contract.nursery or SHARED
        return Surroundings(_environment(self._contract), folder, path, arguments, scratch, nursery=nursery)

    def _work(self, crew: LocalCrew, errands: Errands) -> None:
        while not self._closing and time.monotonic() - self._asked < CALLER_GONE:
            with contextlib.suppress(BlockingIOError):
                while self._bell.recv(4096):
                    pass
            while self._orders:
                self._obey(crew, errands, self._orders.popleft())
            events = errands.watch(crew.receive(TICK))
            stop_overdue(crew, self._contract.job.timeout)
            if events:
                with self._lock:
                    self._events += map(_portable, events)
                self._ring()

    def _obey(self, crew: LocalCrew, errands: Errands, order: tuple[Any, ...]) -> None:
        kind, *rest = order
        if kind == "batch":
            number, attempt, indices, trials, sealed, files = rest
            batch = Batch(number, attempt, indices, [], Sealed(sealed), trials)
            errands.begin(batch, files)
            crew.send(batch)

    def _ring(self) -> None:
        """Wake whoever waits in `hear`."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, future = waiting
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, future)


def _environment(contract: Contract) -> dict[str, str]:
    base = {} if contract.host == host() else os.environ
    # Which GPUs a task sees is for its seat to say; a nursery serves tasks on all of them.
    return {name: value for name, value in {**base, **contract.environment}.items() if name != VISIBLE}


def keep_warm(contract: bytes) -> None:
    """Hold on to the nursery that a foreman with this contract uses, so that the next one finds it."""
    found: Contract = pickle.loads(contract)
    if found.nursery is None:
        client.get_shared(_environment(found))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _portable(event: Event | Filed) -> Event | Filed:
    """An event whose memory can be sent to another machine; a map cannot, what it shows can."""
    if isinstance(event, FinishedLarge) and not isinstance(event.memory, bytes | bytearray):
        return replace(event, memory=pickle.PickleBuffer(event.memory))  # type: ignore[arg-type]
    return event


def _with_devices(seats: tuple[Seat, ...], gpus: Sequence[str]) -> tuple[Seat, ...]:
    """The seats with the devices that the cluster has given to us in the place of those that the plan has counted."""
    counted = list(dict.fromkeys(gpu.address for seat in seats for gpu in seat.gpus))
    if not gpus or not counted:
        return seats
    given = dict(zip(counted, gpus, strict=False))
    return tuple(
        replace(seat, gpus=tuple(replace(gpu, address=given[gpu.address]) for gpu in seat.gpus)) for seat in seats
    )


# -- what stays between calls -----------------------------------------------------------------------------------------

_count = 0
_timer: threading.Timer | None = None
_lock = threading.Lock()


def _started() -> None:
    global _count
    with _lock:
        _count += 1
        if _timer is not None:
            _timer.cancel()


def _ended() -> None:
    global _count, _timer
    with _lock:
        _count -= 1
        if _count == 0:
            _timer = threading.Timer(KEEP_WARM, tidy)
            _timer.daemon = True
            _timer.start()


def tidy() -> None:
    """Let go of what the next call could have used."""
    with _lock:
        if _count == 0:
            client.leave_shared()
            content.forget()
