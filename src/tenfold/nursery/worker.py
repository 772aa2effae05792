"""The caller's view of one worker process: its ends of everything, and what it is doing."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from tenfold.machine.memory import private
from tenfold.nursery import child, slate
from tenfold.nursery.load import Load
from tenfold.nursery.starter import Starter
from tenfold.nursery.wire import Closed, Wire
from tenfold.plan.needs import readable
from tenfold.plan.seats import Seat
from tenfold.work import parcel
from tenfold.work.outcome import Failure
from tenfold.work.run import Job

TAIL = 32 * 1024  # bytes of its output that are kept for the error, should it die; less of it is shown

_HOST = socket.gethostname()


class Sendable(Protocol):
    """What a worker is given: tasks that travel together."""

    @property
    def id(self) -> int: ...

    @property
    def attempt(self) -> int: ...

    @property
    def indices(self) -> Sequence[int]: ...


class Output:
    """One stream of a worker's output. Whole lines, so that those of several workers do not run into each other."""

    def __init__(self, stream: str, handle: int) -> None:
        self.stream = stream
        self.handle = handle
        self.tail = bytearray()
        self._line = bytearray()  # printed, and not ended yet

    def read(self, *, all_of_it: bool) -> tuple[str, bool]:
        """What has been printed since the last call, to the end of a line or all of it; and whether it has ended."""
        found = bytearray()
        ended = False
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.handle, 65536):
                found += data
            ended = True
        self.tail = (self.tail + found)[-TAIL:]
        self._line += found
        end = len(self._line) if ended or all_of_it else self._line.rfind(b"\n") + 1
        text, self._line = self._line[:end], self._line[end:]
        return text.decode(errors="replace"), ended


class Worker:
    """The caller's view of one worker process."""

    def __init__(self, name: int, seat: Seat) -> None:
        self.name = name
        self.seat = seat
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        self.wire = Wire(ours)
        self.outputs: list[Output] = []
        self._outputs_theirs: list[int] = []
        for stream in ("stdout", "stderr"):
            output, theirs = os.pipe()
            os.set_blocking(output, False)
            self.outputs.append(Output(stream, output))
            self._outputs_theirs.append(theirs)
        self._slate_handle = slate.create()
        self.slate = slate.Slate(self._slate_handle)
        self.pid = 0
        self.batches: deque[Sendable] = deque()
        self.place = 0  # tasks of the first batch that are done
        self.ready = False
        self.leaving = False
        self.stays = False  # though each task has a process of its own
        self.verdict: Failure | None = None  # why we killed it
        self._open = True
        self.starter: Starter | None = None

    @property
    def theirs(self) -> tuple[int, ...]:
        return self._theirs.fileno(), *self._outputs_theirs, self._slate_handle

    def close_theirs(self) -> None:
        """The worker has its ends now; ours must go, or we would never see it close them."""
        if self._open:
            self._theirs.close()
            for handle in (*self._outputs_theirs, self._slate_handle):
                os.close(handle)
            self._open = False

    def close(self) -> None:
        self.close_theirs()
        self.wire.close()
        for output in self.outputs:
            os.close(output.handle)
        self.slate.close()

    # -- giving it work -----------------------------------------------------------------------------------------

    def enlist(self, order: dict[str, Any], job: Job, load: Load) -> None:
        """Tell it what it needs before its first batch."""
        self.wire.send(("order", order))
        if load.handle is not None:
            self.wire.send(("job", job, None), [load.handle])
        else:
            self.wire.send(("job", job, load.content))

    def hand(self, batch: Sendable, packed: parcel.Parcel | parcel.Sealed) -> None:
        """Send it a batch."""
        self.batches.append(batch)
        message = ("batch", batch.id, batch.attempt, batch.indices)
        with contextlib.suppress(Closed):  # it has just died; its exit gives the batch back
            if packed.size <= child.INLINE:
                self.wire.send((*message, packed.to_bytes()))
                return
            handle = parcel.shared(packed)
            try:
                self.wire.send((*message, None), [handle])
            finally:
                os.close(handle)

    def advance(self, count: int) -> None:
        """We have heard of the next `count` tasks of its first batch."""
        self.place += count
        if self.place == len(self.batches[0].indices):
            self.drop_batch()

    def drop_batch(self) -> None:
        self.batches.popleft()
        self.place = 0

    # -- looking at it ------------------------------------------------------------------------------------------

    @property
    def tail(self) -> bytes:
        """The last that it wrote, to either stream."""
        return b"".join(bytes(output.tail) for output in self.outputs)[-TAIL:]

    def excess(self) -> Failure | None:
        """The failure of its task where that uses more memory than its seat has."""
        if self.seat.memory is None or not self.slate.floor or self.slate.seen() is None:
            return None
        in_use = private(self.pid) - self.slate.floor
        if in_use <= self.seat.memory:
            return None
        text = f"it used {readable(in_use)}, and memory={readable(self.seat.memory)}; it was stopped"
        return Failure("memory", text)

    def is_at(self, batch: int, place: int) -> bool:
        """Whether that task is the next of which we have not heard: what it last said may be about one we have."""
        return bool(self.batches) and self.batches[0].id == batch and place in (self.place, slate.OPENING)

    @property
    def label(self) -> str:
        return f"{_HOST}:{self.pid}"
