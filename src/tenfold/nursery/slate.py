"""Shared memory between a worker and its caller: small results, and what the worker is doing right now.

    [written][read][peak][floor][batch][place][since]  [length batch place seconds body][length ...]...   a ring

The worker writes each result as soon as it has it; the caller reads when it is woken, and from time to time. So a
result that was finished when the worker was killed is not lost, the task that killed it is known, and the clock of a
task needs no message. Each result says whose it is, because failures and large results come by the wire: the caller
reads on only as far as the next task it expects. One writer and one reader: no lock.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time

SIZE = 8 << 20  # pages that are never touched cost nothing
SMALL = 1 << 20
LARGEST = 1 << 20
"""The longest body that goes through a slate; longer ones go through the wire."""

_HEADER = 64
_RECORD = struct.Struct("<IIId")  # length, batch, place, seconds
_COUNTERS = struct.Struct("<QQQQ")
_DOING = slice(_COUNTERS.size, _COUNTERS.size + 16)  # batch, place
_SINCE = slice(_DOING.stop, _DOING.stop + 8)
_WRAP = 0xFFFFFFFF  # in the place of a length: the next record is at the ring's beginning
OPENING = -1
"""The place that a worker says it is at while it unpickles the items of a batch."""

_IDLE = 0  # batches are counted from 1, so fresh memory says idle


def create() -> int:
    """A descriptor of fresh shared memory for one slate."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tenfold-slate")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    try:
        os.ftruncate(handle, SIZE)
    except OSError:  # a limit on the size of files (ulimit -f) applies to shared memory, too
        os.ftruncate(handle, SMALL)
    return handle


class Slate:
    """One side's view."""

    def __init__(self, handle: int) -> None:
        self._memory = mmap.mmap(handle, 0)
        self._size = len(self._memory)
        self._ring = self._size - _HEADER
        self._counters = memoryview(self._memory)[: _COUNTERS.size].cast(
            "Q"
        )  # [0] written, [1] read, [2] peak, [3] floor
        self._doing = memoryview(self._memory)[_DOING].cast("q")
        self._since = memoryview(self._memory)[_SINCE].cast("d")

    def close(self) -> None:
        for view in (self._counters, self._doing, self._since):
            view.release()
        self._memory.close()

    # -- the worker's side --------------------------------------------------------------------------------------

    def doing(self, batch: int, place: int) -> None:
        """Say which task of which batch starts now."""
        self._since[0] = time.monotonic()  # first: whoever looks now must not see a new task with an old time
        self._doing[1] = place
        self._doing[0] = batch

    def idle(self) -> None:
        """Say that no task is running."""
        self._doing[0] = _IDLE

    def weigh(self, peak: int) -> None:
        """Say how much memory this process has used at most."""
        self._counters[2] = peak

    def stand_on(self, floor: int) -> None:
        """Say how much memory this process has before the next task."""
        self._counters[3] = floor

    def put(self, batch: int, place: int, seconds: float, body: bytes) -> bool:
        """Write one result; False where it does not fit now."""
        counters = self._counters
        written, read = counters[0], counters[1]
        size = _RECORD.size + len(body)
        start = _HEADER + written % self._ring
        to_end = self._size - start
        skip = to_end if to_end < size else 0
        if written + skip + size - read > self._ring:
            return False
        if skip:
            if to_end >= _RECORD.size:
                _RECORD.pack_into(self._memory, start, _WRAP, 0, 0, 0.0)
            written, start = written + skip, _HEADER
        _RECORD.pack_into(self._memory, start, len(body), batch, place, seconds)
        self._memory[start + _RECORD.size : start + size] = body
        counters[0] = written + size
        return True

    # -- the caller's side --------------------------------------------------------------------------------------

    def take(self, batch: int, place: int) -> tuple[list[float], list[bytes]]:
        """The results of `batch` from `place` on, as far as they are here: how long each took, and its body."""
        counters, memory = self._counters, self._memory
        read, written = counters[1], counters[0]
        seconds: list[float] = []
        bodies: list[bytes] = []
        unpack, head = _RECORD.unpack_from, _RECORD.size
        while read < written:
            start = _HEADER + read % self._ring
            to_end = self._size - start
            if to_end < head:
                read += to_end
                continue
            length, whose, where, took = unpack(memory, start)
            if length == _WRAP:
                read += to_end
                continue
            if whose != batch or where != place:
                break
            start += head
            seconds.append(took)
            bodies.append(memory[start : start + length])
            read += head + length
            place += 1
        counters[1] = read
        return seconds, bodies

    @property
    def peak(self) -> int:
        """Most resident bytes of the worker, as it last said."""
        return self._counters[2]

    @property
    def floor(self) -> int:
        """Private bytes of the worker before its task; 0 where nobody needs to know."""
        return self._counters[3]

    def seen(self) -> tuple[int, int, float] | None:
        """(batch, place, seconds so far) of the task that is running, or None."""
        batch, place, since = self._doing[0], self._doing[1], self._since[0]
        return None if batch == _IDLE else (batch, place, max(0.0, time.monotonic() - since))
