"""In the caller: keeps the roll of the workers that train one model, and lets them go on when one is lost.

Workers connect, and stay connected. The first muster is called when all are there. When one is gone (its connection
ends, or it gives no sign of life), the others are told to leave what they are doing and to say how far they are; those
that are there make the next muster, go on from the furthest, and repeat the step that was interrupted. One that comes
late, or comes again, changes the muster in the same way, and so does a parameter server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from tenfold.plan.workers import Timing
from tenfold.training import signs
from tenfold.training.checkpoint import Checkpoint
from tenfold.training.muster import Arrival, Muster, Serving
from tenfold.training.stations import Stations
from tenfold.training.wires import LOOPBACK, Gate, Message, Ticket

Judge = Callable[[Timing], bool]
"""Whether workers that are so fast go on."""
LOOK_EVERY = 0.25
GATHER_FIRST = 300.0  # seconds from the first arrival until all workers must be there
GATHER_AGAIN = 10.0  # the same after all were lost: then those that are there go on


@dataclass(slots=True, eq=False)
class Present:
    """A worker or a parameter server that is connected."""

    wire: Connection
    """To it."""
    near: str
    """The caller's own address on it."""
    begun: tuple[int, signs.Place] | None = None
    """Which worker it is, and where; it may still build its model."""
    arrival: Arrival | None = None
    """What it said of itself when it had."""
    serving: Serving | None = None
    """The same of a server."""
    tells_of: signs.Place | None = None
    """The process whose pulse it is, where it is one."""
    step: int | None = None
    """Where it is ready to go on; None while it works."""
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""

    @property
    def place(self) -> signs.Place | None:
        """Where it is, once it has said so."""
        if self.begun is not None:
            return self.begun[1]
        return None if self.serving is None else (self.serving.host, self.serving.pid)

    @property
    def name(self) -> str:
        if self.serving is not None:
            return f"parameter server {self.serving.part}"
        return "a worker" if self.begun is None else f"worker {self.begun[0]}"


class Roll:
    """One call's, kept by a thread of the caller."""

    def __init__(
        self,
        count: int,
        checkpoint: Checkpoint,
        *,
        everywhere: bool = False,
        judge: Judge | None = None,
        start_servers: Callable[[Roll, int], None] | None = None,
    ) -> None:
        """`everywhere` lets other machines in; `judge` is asked, in the roll's thread, when first steps are timed;
        `start_servers` is called where workers add to the same weights.
        """
        self._count = count
        self._checkpoint = checkpoint
        self._judge = judge
        self._gate = Gate(count, everywhere=everywhere)
        self._present: list[Present] = []
        self._stations = Stations(None if start_servers is None else lambda parts: start_servers(self, parts))
        self._muster: Muster | None = None
        self._musters = 0
        self._gathers = True  # nobody trains: those who come wait for each other
        self._since: float | None = None  # when the first of them came
        self._began = time.monotonic()
        self._end: Message | None = None
        self._fault = ""
        self.events: list[str] = []
        """What happened, in words."""
        self._thread = threading.Thread(target=self._keep, daemon=True, name="tenfold-roll")
        self._thread.start()

    @property
    def ticket(self) -> Ticket:
        """For the workers."""
        return self._gate.ticket

    @property
    def result(self) -> Any:
        """What the workers have made in the end; None where they have not come to it."""
        return self._end.value if self._end is not None and self._end.kind == "end" else None

    @property
    def left(self) -> bool:
        """Whether the workers were sent away, because another number of them is better."""
        return self._end is not None and self._end.kind == "leave"

    def fail(self, text: str) -> None:
        """The training cannot go on; from any thread."""
        self._fault = text

    def close(self) -> None:
        """No worker is let in any more."""
        self._gate.end()
        self._thread.join()
        for present in self._present:
            present.wire.close()
        self._gate.close()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while True:
            wires = [present.wire for present in self._present]
            ready = wait([self._gate.over, self._gate.socket, *wires], LOOK_EVERY)
            if self._gate.over in ready:
                return
            try:
                self._turn(ready)
            except Exception as error:  # a disk that is full, for a checkpoint: nobody may wait for us then
                self._finish(Message("stop", f"the caller cannot go on: {type(error).__name__}: {error}"))

    def _turn(self, ready: Sequence[Any]) -> None:
        if self._gate.socket in ready:
            self._admit()
        for present in list(self._present):
            if present.wire in ready and present in self._present:  # it may have been lost just now
                self._hear(present)
        self._look_after()
        if self._fault:
            self._finish(Message("stop", self._fault))
        self._call()

    def _admit(self) -> None:
        found = self._gate.admit()
        if found is not None:
            self._present.append(Present(*found))

    def _hear(self, present: Present) -> None:
        try:
            message: Message = present.wire.recv()
        except (OSError, EOFError):
            self._lose(present, "has ended")
            return
        kind, value = message.kind, message.value
        if kind == "pulse":
            present.tells_of = value
        present.heard = time.monotonic()
        if present.tells_of is not None:
            for other in self._present:
                other.heard = present.heard if other.place == present.tells_of else other.heard
        if kind == "begin":
            present.begun = value
        elif kind == "arrive":
            self._arrive(present, value)
        elif kind == "serve":
            self._man(present, value)
        elif kind == "at":
            present.step = value
        elif kind == "state":
            self._hand_on(*value)
        elif kind == "save" and self._judge is None:  # what is only tried leaves nothing behind
            self._checkpoint.write(*value)
        elif kind == "timed" and self._judge is not None:
            stays, self._judge = self._judge(value), None
            if not stays:
                self._finish(Message("leave", "others are faster, or are to be tried"))
        elif kind == "late":
            for other in list(self._present):
                if other.arrival is not None and other.arrival.index in value:
                    self._lose(other, "has not finished a step for long", end=True)
        elif kind == "result":
            self._finish(Message("end", value))
        elif kind == "failed":
            self._finish(Message("stop", value))

    def _arrive(self, present: Present, arrival: Arrival) -> None:
        for other in list(self._present):  # its last attempt, which we did not see ending
            if other is not present and other.arrival is not None and other.arrival.index == arrival.index:
                self._lose(other, "has been replaced")
        present.arrival, present.step = arrival, arrival.step
        self._since = self._since or time.monotonic()
        if self._end is not None:
            self._send(present, self._end)
        else:
            self._interrupt()

    def _man(self, present: Present, serving: Serving) -> None:
        for other in list(self._present):
            if other is not present and other.serving is not None and other.serving.part == serving.part:
                self._lose(other, "has been replaced")
        present.serving = serving
        self._stations.man(serving)
        self._note(f"{present.name} is there")
        if self._end is not None:
            self._send(present, Message("end"))

    def _finish(self, message: Message) -> None:
        if self._end is not None:
            return
        self._end = message
        for present in list(self._present):  # who still builds its model hears it then
            if present.arrival is not None or present.serving is not None:
                self._send(present, message if present.serving is None else Message("end"))

    def _interrupt(self) -> None:
        """Those who work are told to say where they are."""
        if self._muster is None:
            return
        self._muster = None
        for present in list(self._present):
            if present.step is None and present.arrival is not None:
                self._send(present, Message("change"))

    def _lose(self, present: Present, why: str, *, end: bool = False) -> None:
        if present not in self._present:
            return
        self._present.remove(present)
        present.wire.close()
        if end and present.place is not None:
            self._kill(present.place)
        if present.place is None or self._end is not None:
            return
        if present.serving is not None:
            self._stations.leave(present.serving)
            self._note(f"{present.name} {why}")
            self._interrupt()
            return
        others = len([other for other in self._present if other.arrival is not None])
        self._note(f"{present.name} {why}; {others} of {self._count} are there")
        if present.arrival is None:  # nobody has waited for it in a step
            return
        if not others:
            self._gathers, self._since = True, None
        self._interrupt()

    def _look_after(self) -> None:
        """End workers that hang: nothing else would notice a process that is stopped."""
        now = time.monotonic()
        for present in list(self._present):
            silent, place = now - present.heard, present.place
            if silent < signs.SILENCE or present not in self._present:
                continue
            pulses = [one for one in self._present if place is not None and one.tells_of == place]
            if any(one.wire.poll(0) for one in (present, *pulses)):  # while we were busy with others
                continue
            if signs.overdue(silent, place or ("", 0), pulse=bool(pulses)):
                self._lose(present, f"has given no sign of life for {silent:.1f} s", end=True)

    def _kill(self, place: signs.Place) -> None:
        """A process that hangs: the engine starts another one when it is gone."""
        signs.end(*place)
        for one in self._present:
            if one.tells_of == place:
                with contextlib.suppress(OSError):  # cut off: then its engine gives it up
                    one.wire.send_bytes(signs.KILL)

    def _call(self) -> None:
        """The next muster, when everybody who is there is ready for it."""
        here = [present for present in self._present if present.arrival is not None]
        if self._muster is not None or self._end is not None or not here or any(one.step is None for one in here):
            return
        if len(here) < self._count and not self._may_be_fewer(here):
            return
        arrivals = [self._reached(one.arrival, one.step) for one in here if one.arrival and one.step is not None]
        arrivals.sort(key=lambda arrival: arrival.index)
        if not self._stations.are_ready(arrivals):
            return
        step = max(self._checkpoint.mark, *(arrival.step for arrival in arrivals))
        furthest = next((rank for rank, arrival in enumerate(arrivals) if arrival.step == step), -1)
        # Of an epoch that is begun again, asynchronous workers write later states with the same mark.
        source = -1 if self._gathers and step == self._checkpoint.mark else furthest
        self._musters += 1
        servers = tuple(map(self._elsewhere, self._stations.addresses))
        self._muster = muster = Muster(self._musters, tuple(arrivals), step, source, servers)
        self._note(f"{len(arrivals)} of {self._count} workers go on at step {step}")
        self._tell_apart(muster)
        self._gathers = False
        for present in here:
            present.step = None
            self._send(present, Message("muster", muster))
        if source < 0:
            self._hand_on(muster.number, self._checkpoint.body())

    def _tell_apart(self, muster: Muster) -> None:
        """Those whose `build` has made another model."""
        for arrival in muster.arrivals:
            if arrival.step == muster.step and muster.differs(arrival):
                source = muster.arrivals[muster.source].index
                self._note(f"worker {arrival.index} was built otherwise than worker {source}, and is given its state")

    def _reached(self, arrival: Arrival, step: int) -> Arrival:
        return replace(arrival, step=step, address=self._elsewhere(arrival.address))

    def _elsewhere(self, address: tuple[str, int]) -> tuple[str, int]:
        """Who is beside the caller is where others have found the caller."""
        if address[0] != LOOPBACK:
            return address
        return next((one.near for one in self._present if one.near != LOOPBACK), LOOPBACK), address[1]

    def _hand_on(self, number: int, state: bytes) -> None:
        """To those who are behind in this muster, unless it has changed since."""
        muster = self._muster
        if muster is None or muster.number != number:
            return
        origin = muster.arrivals[muster.source].origin if muster.source >= 0 else b""
        for present in list(self._present):
            if present.arrival is not None and present.arrival.index in muster.behind:
                present.arrival = replace(present.arrival, origin=origin)
                self._send(present, Message("take", (number, state)))

    def _may_be_fewer(self, here: list[Present]) -> bool:
        """Survivors go on at once; those who begin wait for each other."""
        waited = time.monotonic() - (self._since or time.monotonic())
        if not self._musters and waited > GATHER_FIRST:
            self._finish(Message("stop", f"only {len(here)} of {self._count} workers came within {GATHER_FIRST:g} s"))
        return bool(self._musters) and (not self._gathers or waited > GATHER_AGAIN)

    def _send(self, present: Present, message: Message) -> None:
        try:
            present.wire.send(message)
        except OSError:
            self._lose(present, "cannot be reached")

    def _note(self, text: str) -> None:
        self.events.append(f"{time.monotonic() - self._began:.1f} s: {text}")
