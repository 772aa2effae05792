"""In the caller: where the workers of a launch meet, learn each other's addresses, and say how it ended.

A worker connects when it starts and stays connected. When all are there, each is sent the list of all. When all are
done, they are told to leave. Who failed first is decided here, because the others fail a moment later: their
connections to the lost one break.

    a worker whose function raises says so, and keeps still until it is told to go on: nobody suffers from it yet
    a worker that is killed says nothing: its connection ends, before or just after its victims complain
    so a complaint counts only when no connection has ended within HOLD of it

Of a training, it also keeps what workers want to go on from, and looks for those that hang: it knows that they would
give signs of life. Somebody's own function may be looked at in a debugger, which stops it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from tenfold.training import signs
from tenfold.training.gang import Attendee
from tenfold.training.parts import Parts
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
    lost: bool = False
    """Its process is gone, or hangs: it may be better the next time."""


@dataclass(slots=True, eq=False)
class _Line:
    """To one worker."""

    wire: Connection
    """The connection."""
    near: str
    """The caller's own address on it."""
    rank: int | None = None
    """Whose it is, once that is known."""
    where: str = ""
    """Its machine."""
    pid: int = 0
    """Its process."""
    tells_of: signs.Place | None = None
    """The process whose pulse it is, where it is one."""
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""
    attendee: Attendee | None = None
    """What it has said of itself."""
    done: bool = False
    """Its function has returned."""


class Rendezvous:
    """One call's, kept by a thread of the caller."""

    def __init__(self, count: int, *, everywhere: bool, parts: Parts | None = None) -> None:
        """`everywhere` lets other machines in. With `parts`, it is a training's."""
        self._count = count
        self._parts = parts
        self._gate = Gate(count, everywhere=everywhere)
        self._lines: list[_Line] = []
        self._complaints: list[tuple[float, _Line, str]] = []
        self._since: float | None = None  # the first worker's arrival
        self._met = False
        self._over = False
        self.blame: Blame | None = None
        """Who failed first; None where nobody has failed."""
        self.error: Exception | None = None
        """Why the caller cannot go on, where the workers could: a disk that is full."""
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
            try:
                self._turn(ready)
            except Exception as error:  # nobody may wait for us then
                self.error = self.error or error
                self._tell_all(Message("halt"))

    def _turn(self, ready: Sequence[Any]) -> None:
        if self._gate.socket in ready:
            self._admit()
        for line in list(self._lines):
            if line.wire in ready and line in self._lines:  # it may have been lost just now
                self._hear(line)
        if self._parts is not None:
            self._look_after()
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
        kind, value, line.heard = message.kind, message.value, time.monotonic()
        if kind == "pulse":
            line.tells_of = value
        if line.tells_of is not None:
            for other in self._lines:
                other.heard = line.heard if (other.where, other.pid) == line.tells_of else other.heard
        if kind == "begin":
            (line.rank, line.where, line.pid), self._since = value, self._since or line.heard
            if self.error is not None:
                self._send(line, Message("halt"))
            elif self.blame is not None:  # one that is tried again, or comes late: there is no group for it
                self._send(line, Message("raise", self._verdict))
        elif kind == "arrive":
            line.attendee = value
            self._introduce()
        elif kind == "done":
            line.done = True
            if self.blame is None and sum(one.done for one in self._lines) == self._count:
                self._over = True
                self._tell_all(Message("end"))
        elif kind == "part" and self._parts is not None and line.rank is not None:
            self._parts.add(line.rank, *value)
        elif kind == "fetch" and self._parts is not None and line.rank is not None:
            self._send(line, Message("part", self._parts.body(line.rank)))
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
            self._decide(line.rank, "its process has ended without a word", lost=True)

    def _look_after(self) -> None:
        """End a worker that hangs: the others would wait for it for long."""
        for line in self._lines:
            silent, place = time.monotonic() - line.heard, (line.where, line.pid)
            if line.rank is None or silent < signs.SILENCE or self.blame is not None:
                continue
            pulses = [one for one in self._lines if one.tells_of == place]
            said = any(one.wire.poll(0) for one in (line, *pulses))  # while we were busy with others
            if said or not signs.overdue(silent, place, pulse=bool(pulses)):
                continue
            signs.end(*place)
            for pulse in pulses:
                with contextlib.suppress(OSError):  # cut off: then its engine gives it up
                    pulse.wire.send_bytes(signs.KILL)
            self._decide(line.rank, f"it has given no sign of life for {silent:.1f} s", lost=True)

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

    def _decide(self, rank: int, text: str, *, all_raise: bool = False, lost: bool = False) -> None:
        """The one who failed first goes on to raise; the others keep still until the engine ends them."""
        self.blame = Blame(rank, text, lost)
        for line in self._workers:
            self._send(line, Message("raise" if all_raise or line.rank == rank else "stop", self._verdict))

    @property
    def _verdict(self) -> str:
        return "" if self.blame is None else f"worker {self.blame.rank} failed first: {self.blame.text}"

    def _tell_all(self, message: Message) -> None:
        for line in self._workers:
            self._send(line, message)

    @property
    def _workers(self) -> list[_Line]:
        """Lines of those who have begun."""
        return [line for line in self._lines if line.rank is not None]

    def _send(self, line: _Line, message: Message) -> None:
        with contextlib.suppress(OSError):  # it is gone: that is heard in its turn
            line.wire.send(message)
