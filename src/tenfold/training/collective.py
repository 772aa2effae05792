"""Adds up the vectors of workers through a process group of PyTorch: NCCL between GPUs, gloo between CPUs.

The vector is a tensor where gradients are computed, and is added up there. A group belongs to one muster and to nobody
else: it is not PyTorch's default group, which stays the user's. A sum is asked for and waited for in short looks, so
that a worker that is lost is noticed as it is in a ring; then the group is left, and the next muster forms another.

Who forms a group with whom is found in a store of the first worker, under a name that only those of the call know. That
is all that the call's key protects: the sockets of gloo and NCCL take whoever finds them, and what they send is plain.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from tenfold.training.adding import Ask, Slots
from tenfold.training.groups.torch import use_interface
from tenfold.training.muster import Muster

FORMING = timedelta(seconds=300)  # for all to come, and to find each other
LONGEST = timedelta(hours=1)  # of a sum: whoever is waited for so long has been given up before
LOOK_EVERY = 0.05  # seconds of waiting after which it is asked whether that is pointless
NAP = 50e-6  # between two looks at a GPU
MARK_AFTER = 1.0  # seconds of waiting after which a worker lets the others know that it is not the one who is late
GRACE = 10.0  # seconds within which somebody is known to be lost, if that is why a group has failed
ALONE = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}
"""Or PyTorch ends the process of a survivor, a while after NCCL has lost somebody."""


class Meeting:
    """Where this worker meets others, from one muster to the next.

    It has one server for all musters: that of an old one, kept by who is slow to leave it, would take the new guests.
    """

    def __init__(self, listener: socket.socket, key: bytes) -> None:
        """`listener` is where others reach this worker."""
        self._listener = listener
        self._key = key
        self._server: Any = None

    def slots(self, muster: Muster, rank: int, size: int, device: Any, ask: Ask) -> Collective:
        """Of this muster: on a GPU by NCCL; where there is none, by gloo."""
        where = device or torch.device("cpu")
        member = Gloo if device is None else Nccl
        return member(muster, rank, size, where, self._store(muster, rank), ask)

    def close(self) -> None:
        """Nobody is met any more."""
        self._server = None

    def _store(self, muster: Muster, rank: int) -> Callable[[], Any]:
        """Finds it, for those of a muster alone; each has a connection of its own, for one may still be waited at."""
        address = muster.arrivals[0].address
        if rank == 0 and self._server is None:
            self._server = distributed.TCPStore(
                *address, is_master=True, wait_for_workers=False, master_listen_fd=os.dup(self._listener.fileno())
            )
        name = hmac.new(self._key, f"group {muster.number}".encode(), hashlib.sha256).hexdigest()
        return lambda: distributed.PrefixStore(
            name, distributed.TCPStore(*address, is_master=False, timeout=FORMING, wait_for_workers=False)
        )


class Collective(Slots):
    """This worker's place in a group."""

    def __init__(self, muster: Muster, rank: int, size: int, device: Any, store: Callable[[], Any], ask: Ask) -> None:
        super().__init__(rank, len(muster.arrivals))
        self.slot = torch.zeros(size, device=device)
        self._address = muster.arrivals[rank].address[0]
        self._store: Any = None
        self._group: Any = None
        self._fault: Exception | None = None
        forming = threading.Thread(target=self._form, args=(store,), daemon=True)
        forming.start()
        try:
            while forming.is_alive():
                forming.join(LOOK_EVERY)
                ask(list)
            if self._fault is not None:
                self._await_change(self._fault, ask)
        except BaseException:
            self.close()
            raise

    def _form(self, store: Callable[[], Any]) -> None:
        """In a thread: nothing else can be done while a group is formed, such as to hear that one is lost."""
        try:
            self._store = store()
            self._join()
        except Exception as error:
            self._fault = error

    @abstractmethod
    def _join(self) -> None:
        """Make the group, when all others do."""

    @abstractmethod
    def _begin(self) -> Callable[[], bool]:
        """Add up all slots in place; what is returned takes a short look whether that is done, and raises its fault."""

    def add(self, turn: int, ask: Ask) -> Any:
        try:
            done = self._begin()
            began = asked = time.monotonic()
            marked = False
            while not done():
                now = time.monotonic()
                if not marked and now - began > MARK_AFTER:
                    marked = True
                    self._mark(turn)
                if now - asked > LOOK_EVERY:
                    asked = now
                    ask(lambda: self._missing(turn))
        except RuntimeError as error:
            self._await_change(error, ask)
        return self.slot

    def close(self) -> None:
        threading.Thread(target=_leave, args=([self._group],), daemon=True).start()
        self._group = self._store = None

    def _mark(self, turn: int) -> None:
        with contextlib.suppress(RuntimeError):  # the store is the first worker's, who may be the one that is lost
            self._store.set(f"{turn} {self.rank}", "waits")
            self._store.check([f"{turn} {self.rank}"])  # an answer: now others see it

    def _missing(self, turn: int) -> list[int]:
        with contextlib.suppress(RuntimeError):
            return [rank for rank in range(self.count) if not self._store.check([f"{turn} {rank}"])]
        return [0]

    def _await_change(self, fault: Exception, ask: Ask) -> None:
        """Somebody is gone, and the roll will say so; where it does not, the group is at fault."""
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            ask(list)
            time.sleep(LOOK_EVERY)
        raise fault


class Gloo(Collective):
    """Between CPUs."""

    def _join(self) -> None:
        options = distributed.ProcessGroupGloo._Options()
        options._devices = [distributed.ProcessGroupGloo.create_device(hostname=self._address)]
        options._timeout = FORMING
        options._threads = 1
        self._group = distributed.ProcessGroupGloo(self._store, self.rank, self.count, options)

    def _begin(self) -> Callable[[], bool]:
        options = distributed.AllreduceOptions()
        options.timeout = LONGEST
        work = self._group.allreduce([self.slot], options)

        def done() -> bool:
            with contextlib.suppress(RuntimeError):  # it was not done in this time, or has failed
                work.wait(timedelta(seconds=LOOK_EVERY))
            return bool(work.is_completed() and work.wait())

        return done


class Nccl(Collective):
    """Between GPUs."""

    def _join(self) -> None:
        os.environ.update(ALONE)
        use_interface(self._address)
        torch.cuda.set_device(self.slot.device)  # of this thread
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = LONGEST
        self._group = distributed.ProcessGroupNCCL(self._store, self.rank, self.count, options)
        self._group.allreduce([torch.ones(1, device=self.slot.device)]).wait()  # the first sum makes connections
        torch.cuda.synchronize(self.slot.device)

    def _begin(self) -> Callable[[], bool]:
        self._group.allreduce([self.slot]).wait()  # the stream does: this thread goes on
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.slot.device))

        def done() -> bool:
            if not event.query():
                time.sleep(NAP)
                return False
            return True

        return done


def gpu(device: Any) -> str:
    """The name of a GPU that is no other's on any machine; empty where there is none, or no NCCL to reach it."""
    if device.type != "cuda" or not distributed.is_nccl_available():
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))  # older PyTorch has none


def _leave(groups: list[Any]) -> None:
    """In a thread: gloo waits until those it waits for are gone; NCCL ends what it does at once."""
    for group in groups:
        if group is not None:
            with contextlib.suppress(AttributeError):  # older PyTorch has it for no group
                group.abort()
    groups.clear()
