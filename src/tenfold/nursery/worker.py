"""The caller's view of one worker process: its ends of everything, and what it is doing."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tenfold.nursery import slate
from tenfold.nursery.starter import Starter
from tenfold.nursery.wire import Wire
from tenfold.plan.seats import Seat
from tenfold.work.outcome import Failure

_HOST = socket.gethostname()


class Sendable(Protocol):
    """What a worker is given: tasks that travel together."""

    @property
    def id(self) -> int: ...

    @property
    def indices(self) -> Sequence[int]: ...


class Worker:
    """The caller's view of one worker process."""

    def __init__(self, name: int, seat: Seat) -> None:
        self.name = name
        self.seat = seat
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        self.wire = Wire(ours)
        self.output, self._output_theirs = os.pipe()
        os.set_blocking(self.output, False)
        self._slate_handle = slate.create()
        self.slate = slate.Slate(self._slate_handle)
        self.pid = 0
        self.batches: deque[Sendable] = deque()
        self.place = 0  # tasks of the first batch that are done
        self.memory_at_start: int | None = None
        self.peak = 0
        self.leaving = False
        self.verdict: Failure | None = None  # why we killed it
        self.tail = bytearray()
        self.starter: Starter | None = None

    @property
    def theirs(self) -> tuple[int, int, int]:
        return self._theirs.fileno(), self._output_theirs, self._slate_handle

    def close_theirs(self) -> None:
        """The worker has its ends now; ours must go, or we would never see it close them."""
        if self._output_theirs >= 0:
            self._theirs.close()
            os.close(self._output_theirs)
            os.close(self._slate_handle)
            self._output_theirs = -1

    def close(self) -> None:
        self.close_theirs()
        self.wire.close()
        os.close(self.output)
        self.slate.close()

    @property
    def label(self) -> str:
        return f"{_HOST}:{self.pid}"
