"""In a worker: its line to the caller's roll. Says that it lives, hears of changes, hands over the model's state."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tenfold.errors import Abandoned
from tenfold.machine.host import host
from tenfold.plan.workers import Timing
from tenfold.training.muster import Arrival, Muster
from tenfold.training.pulse import Pulse
from tenfold.training.signs import BEAT_EVERY
from tenfold.training.wires import Message, Ticket, connected, listen
from tenfold.work.run import Declined

USUAL = 30.0  # seconds that a step may take longer than the last ones, before those who are late are given up
TIMES = 20  # how many times a usual step, besides
FIRST = 600.0  # seconds for the first step of a muster, which may compile, and for all rows that are scored


class Changed(Exception):
    """The muster has changed: leave the step, and regroup."""


class Over(Exception):
    """The others have come to the end; what they have made is the value."""


class Attending(ABC):
    """What a strategy asks of who is there, and tells them: here of nobody, as where one trains alone."""

    index: int
    """This worker's number."""
    key: bytes
    """Of the call."""
    listener: socket.socket | None
    """For a neighbour who cannot share this machine's memory."""

    def arrive(self, step: int, size: int, gpu: str = "", origin: bytes = b"") -> None:  # noqa: B027
        """The model is built: this worker can begin."""

    @abstractmethod
    def regroup(self, step: int, state: Callable[[], Any]) -> tuple[Muster, Any]:
        """The next muster, and the state to go on from where this worker is behind: None where it is not."""

    def look(self) -> None:  # noqa: B027
        """Between steps: Changed where the muster has."""

    def ask(self, missing: Callable[[], list[int]], muster: Muster) -> None:  # noqa: B027
        """While waiting for others: Changed where one of them is gone. One that is far too late is given up."""

    def stepped(self, seconds: float | None) -> None:  # noqa: B027
        """A step is done; None where the next is no usual one."""

    @abstractmethod
    def save(self, mark: int, state: Any) -> None:
        """For a training that no worker is left of: a checkpoint."""

    def timed(self, timing: Timing) -> None:  # noqa: B027
        """How fast the first steps were, for a caller who chooses by it."""

    @abstractmethod
    def finish(self, result: Any) -> None:
        """What has been made in the end, for the caller and for all others."""

    @abstractmethod
    def await_end(self) -> Any:
        """What was made; Changed where the one who should send it is gone."""


class Attendance(Attending):
    """One worker's, from its arrival to the end."""

    def __init__(self, ticket: Ticket, index: int) -> None:
        self.index = index
        self.key = ticket.key
        self._wire, self._own = connected(ticket)
        self.listener: socket.socket = listen(ticket, self._own)
        self._pulse = Pulse(ticket)
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._unheard: Message | None = None
        self._usual: float | None = None
        self._waits_since: float | None = None
        self._send("begin", (index, (host(), os.getpid())))
        self._beat = threading.Thread(target=self._live, daemon=True, name="tenfold-beat")
        self._beat.start()

    def arrive(self, step: int, size: int, gpu: str = "", origin: bytes = b"") -> None:
        address = self._own, self.listener.getsockname()[1]
        self._send("arrive", Arrival(self.index, host(), os.getpid(), address, step, size, gpu, origin))

    def regroup(self, step: int, state: Callable[[], Any]) -> tuple[Muster, Any]:
        muster: Muster | None = None
        while True:
            message = self._hear()
            if message.kind == "change":
                self._send("at", step)
            elif message.kind == "muster":
                muster = message.value
                self._usual, self._waits_since = None, None
                assert muster is not None
                if muster.behind and muster.rank(self.index) == muster.source:
                    self._send("state", (muster.number, packed(state())))
                if self.index not in muster.behind:
                    return muster, None
            elif (
                message.kind == "take" and muster is not None and message.value[0] == muster.number
            ):  # not of one that has changed since
                return muster, pickle.loads(message.value[1])

    def look(self) -> None:
        if self._wire.poll(0):
            raise Changed

    def ask(self, missing: Callable[[], list[int]], muster: Muster) -> None:
        self.look()
        self._waits_since = self._waits_since or time.monotonic()
        limit = FIRST if self._usual is None else USUAL + TIMES * self._usual
        if time.monotonic() - self._waits_since > limit:
            self._send("late", [muster.arrivals[rank].index for rank in missing()])
            self._waits_since = None

    def stepped(self, seconds: float | None) -> None:
        self._usual, self._waits_since = seconds, None

    def save(self, mark: int, state: Any) -> None:
        self._send("save", (mark, packed(state)))

    def timed(self, timing: Timing) -> None:
        self._send("timed", timing)

    def finish(self, result: Any) -> None:
        self._send("result", result)

    def await_end(self) -> Any:
        try:
            self._unheard = self._hear()
        except Over as over:
            return over.args[0]
        raise Changed

    def fail(self, text: str) -> None:
        """This worker cannot go on, nor can the others."""
        with contextlib.suppress(OSError):
            self._send("failed", text)

    def close(self) -> None:
        self._closed.set()
        self._beat.join()
        self._pulse.close()
        self._wire.close()
        self.listener.close()

    def _hear(self) -> Message:
        message = self._unheard or self._wire.recv()
        self._unheard = None
        if message.kind == "end":
            raise Over(message.value)
        if message.kind == "stop":
            raise Abandoned(message.value)
        if message.kind == "leave":
            raise Declined(message.value)
        return message

    def _live(self) -> None:
        while not self._closed.wait(BEAT_EVERY):
            try:
                self._send("beat", None)
            except OSError:
                return

    def _send(self, kind: str, value: Any) -> None:
        with self._sending:
            self._wire.send(Message(kind, value))


def packed(state: Any) -> bytes:
    """A state, as it travels and as checkpoints have it."""
    return pickle.dumps(state, protocol=5)
