"""In a worker of a launch: its line to the caller's rendezvous."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from typing import Any

from tenfold.errors import Abandoned
from tenfold.machine.host import host
from tenfold.training.gang import Attendee
from tenfold.training.pulse import Pulse
from tenfold.training.signs import BEAT_EVERY
from tenfold.training.wires import Message, Ticket, connected

ENDED_WITHIN = 10.0  # seconds in which the engine ends those who are to stop; then they do it themselves


class Line:
    """One worker's, from its start to its end. A thread listens, because the function may be in a call that hangs."""

    def __init__(self, ticket: Ticket, rank: int) -> None:
        self._wire, self.address = connected(ticket)
        self._closing = threading.Event()
        self._sending = threading.Lock()
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        # A process that the function forks must not keep the line open when this one is killed.
        os.register_at_fork(after_in_child=self._forget)
        self._send("begin", (rank, host(), os.getpid()))
        self._pulse = Pulse(ticket)
        threading.Thread(target=self._listen, daemon=True, name="tenfold-line").start()
        threading.Thread(target=self._live, daemon=True, name="tenfold-beat").start()

    def meet(self, attendee: Attendee) -> tuple[Attendee, ...]:
        """All workers, when all are there."""
        self._send("arrive", attendee)
        return self._answer("all")  # type: ignore[no-any-return]

    def fetch(self) -> bytes | None:
        """What this worker has kept with the caller; None where there is nothing to go on from."""
        self._send("fetch", None)
        return self._answer("part")  # type: ignore[no-any-return]

    def keep(self, step: int, body: bytes) -> None:
        """For workers that go on from here, with what the others keep after the same step."""
        self._send("part", (step, body))

    def finish(self) -> None:
        """This worker's function has returned; returns when all have."""
        self._send("done", None)
        self._await("end")

    def fail(self, text: str) -> None:
        """This worker cannot go on. Returns when it may say so itself: never, where another one failed first."""
        with contextlib.suppress(OSError):
            self._send("failed", text)
            self._await("raise", "end")

    def close(self) -> None:
        self._closing.set()
        self._pulse.close()
        with contextlib.suppress(OSError), self._sending:
            self._wire.close()

    def _answer(self, kind: str) -> Any:
        message = self._heard.get()
        if message.kind == "stop":
            self._await("raise")
        if message.kind != kind:
            raise Abandoned(message.value)
        return message.value

    def _await(self, *kinds: str) -> None:
        while self._heard.get().kind not in kinds:
            continue  # told to stop: nothing more comes, and the engine or `_listen` ends this process

    def _listen(self) -> None:
        kind = ""
        while kind not in ("stop", "halt", "raise", "end", "gone"):
            try:
                message: Message = self._wire.recv()
            except (OSError, EOFError):
                message = Message("gone", "the caller is gone")
            kind = message.kind
            self._heard.put(message)
        if kind == "stop":
            time.sleep(ENDED_WITHIN)
        if kind in ("stop", "halt", "gone") and not self._closing.is_set():
            os.kill(os.getpid(), signal.SIGKILL)

    def _send(self, kind: str, value: object) -> None:
        with self._sending:
            self._wire.send(Message(kind, value))

    def _live(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closing.wait(BEAT_EVERY):
                self._send("beat", None)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self._wire.close()
