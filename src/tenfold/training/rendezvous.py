"""In the caller: where the workers of a launch meet, learn each other's addresses, and say how it ended.

A worker connects when it starts and stays connected. When all are there, each is sent the list of all. When all are
done, they are told to leave. Who failed first is decided here, because the others fail a moment later: their
connections to the lost one break.

    a worker whose function raises says so, and keeps still until it is told to go on: nobody suffers from it yet
    a worker that is killed says nothing: its connection ends, before or just after its victims complain
    so a complaint counts only when no connection has ended within HOLD of it
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait

from tenfold.training.gang import Attendee
from tenfold.training.wires import LOOPBACK, Gate, Message, Ticket

LOOK_EVERY = 0.05
HOLD = 0.5  # seconds; the end of a killed process is seen within milliseconds, on another machine within a few more
GATHER = 300.0  # seconds from the first worker's arrival until all must be there


@dataclass(frozen=True, slots=True)
class Blame:
    """Who failed first."""

    rank: int
    """The worker."""
    text: str
    """What it said, or what was seen of it."""


@dataclass(slots=True, eq=False)
class _Line:
    """To one worker."""

    wire: Connection
    """The connection."""
    near: str
    """The caller's own address on it."""
    rank: int | None = None
    """Whose it is, once that is known."""
    attendee: Attendee | None = None
    """What it has said of itself."""
    done: bool = False
    """Its function has returned."""


class Rendezvous:
    """One call's, kept by a thread of the caller."""

    def __init__(self, count: int, *, everywhere: bool) -> None:
        """`everywhere` lets other machines in."""
        self._count = count
        self._gate = Gate(count, everywhere=everywhere)
        self._lines: list[_Line] = []
        self._complaints: list[tuple[float, _Line, str]] = []
        self._since: float | None = None  # the first worker's arrival
        self._met = False
        self._over = False
        self.blame: Blame | None = None
        """Who failed first; None where nobody has failed."""
        self._thread = threading.Thread(target=self._keep, daemon=True, name="tenfold-rendezvous")
        self._thread.start()

    @property
    def ticket(self) -> Ticket:
        """For the workers."""
        return self._gate.ticket

    def close(self) -> None:
        """Nobody is let in any more."""
        self._gate.end()
        self._thread.join()
        for line in self._lines:
            line.wire.close()
        self._gate.close()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while True:
            ready = wait([self._gate.over, self._gate.socket, *(line.wire for line in self._lines)], LOOK_EVERY)
            if self._gate.over in ready:
                return
            if self._gate.socket in ready:
                self._admit()
            for line in list(self._lines):
                if line.wire in ready and line in self._lines:  # it may have been lost just now
                    self._hear(line)
            self._judge()

    def _admit(self) -> None:
        found = self._gate.admit()
        if found is not None:
            self._lines.append(_Line(*found))

    def _hear(self, line: _Line) -> None:
        try:
            message: Message = line.wire.recv()
        except (OSError, EOFError):
            self._lose(line)
            return
        kind, value = message.kind, message.value
        if kind == "begin":
            line.rank, self._since = value, self._since or time.monotonic()
            if self.blame is not None:  # one that is tried again, or comes late: there is no group for it
                self._send(line, Message("raise", self._verdict))
        elif kind == "arrive":
            line.attendee = value
            self._introduce()
        elif kind == "done":
            line.done = True
            if self.blame is None and sum(one.done for one in self._lines) == self._count:
                self._over = True
                self._tell_all(Message("end"))
        elif kind == "failed":
            self._complaints.append((time.monotonic(), line, value))

    def _introduce(self) -> None:
        """Everybody to everybody, when all are there."""
        here = [line.attendee for line in self._lines if line.attendee is not None]
        if self._met or self.blame is not None or len(here) < self._count:
            return
        self._met = True
        here.sort(key=lambda attendee: attendee.rank)
        elsewhere = next((line.near for line in self._lines if line.near != LOOPBACK), None)
        if elsewhere is not None:  # workers beside the caller are where others have found the caller
            here = [replace(one, address=elsewhere) if one.address == LOOPBACK else one for one in here]
        self._tell_all(Message("all", tuple(here)))

    def _lose(self, line: _Line) -> None:
        self._lines.remove(line)
        line.wire.close()
        said = any(complaining is line for _, complaining, _ in self._complaints)
        if line.rank is not None and not said and not self._over and self.blame is None:
            self._decide(line.rank, "its process has ended without a word")

    def _judge(self) -> None:
        now = time.monotonic()
        if self.blame is not None or self._over:
            return
        if self._complaints and now - self._complaints[0][0] > HOLD:
            _, line, text = self._complaints[0]
            self._decide(line.rank or 0, text)
        elif not self._met and self._since is not None and now - self._since > GATHER:
            there = {line.rank for line in self._lines if line.attendee is not None}
            missing = next(rank for rank in range(self._count) if rank not in there)
            self._decide(missing, f"it has not come within {GATHER:g} s of the first one", all_raise=True)

    def _decide(self, rank: int, text: str, *, all_raise: bool = False) -> None:
        """The one who failed first goes on to raise; the others keep still until the engine ends them."""
        self.blame = Blame(rank, text)
        for line in list(self._lines):
            self._send(line, Message("raise" if all_raise or line.rank == rank else "stop", self._verdict))

    @property
    def _verdict(self) -> str:
        return "" if self.blame is None else f"worker {self.blame.rank} failed first: {self.blame.text}"

    def _tell_all(self, message: Message) -> None:
        for line in list(self._lines):
            self._send(line, message)

    def _send(self, line: _Line, message: Message) -> None:
        with contextlib.suppress(OSError):  # it is gone: that is heard in its turn
            line.wire.send(message)
