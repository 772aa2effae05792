"""Run a batch as a guest: in a worker process that belongs to somebody else, such as joblib's.

The seat is taken for the batch and given back after it, so that the host's own calls find their process as they left
it. Which seat is settled between the processes themselves, in a small shared file: a process keeps to the seat it had
before, because a framework that has started on one GPU cannot move to another.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.plan.seats import Seat
from tenfold.work import folders, parcel
from tenfold.work.outcome import Failure
from tenfold.work.run import Job, Runner, raised, unsendable
from tenfold.work.settle import lent

HOST_WATCHED_EVERY = 0.5  # seconds

_OWNER = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a guest needs to know, once per call."""

    id: str
    """Names the call; a process loads its function once."""
    function: str | bytes
    """The function's parcel: a file to map, or the bytes where the host may be another machine."""
    job: Job
    """What every task needs."""
    seats: tuple[Seat, ...]
    """The plan's."""
    environment: dict[str, str]
    """The caller's, which tasks are to see."""
    folder: str
    """The caller's current folder, likewise."""
    claims: str | None
    """The shared file in which processes agree on seats; None where threads share one process."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a batch: one entry per task, in order."""

    entries: list[tuple[float, bytes | None, bytes | None, Failure | None]]
    """(seconds, small pickle, parcel, failure): one of the three."""
    reports: list[tuple[int, int, int, dict[str, float], float]]
    """From here().report."""
    peak: int
    """Most resident memory of the process so far."""
    seat: int
    """Where it ran."""
    worker: str
    """Who ran it."""


_functions: dict[str, Callable[[Any], Any]] = {}


def run(invitation: Invitation, attempt: int, indices: Sequence[int], items: bytes) -> Done | Failure:
    """Run the tasks one after the other; a Failure where the function cannot be loaded at all."""
    try:
        function = _function(invitation)
    except BaseException as error:
        return raised(error)
    if invitation.claims is not None:
        _watch_host(os.getpid())
        if invitation.job.scratch:
            _scratch.add(invitation.job.folder)
    with _seat(invitation) as seat:
        return _run(invitation, function, seat, attempt, indices, items)


_scratch: set[str] = set()  # temporary folders of the calls that this process works for


def _die_with_host() -> None:
    """End with the process that started this one: its own pool would notice much later, or never."""
    host = os.getppid()
    while os.getppid() == host:
        time.sleep(HOST_WATCHED_EVERY)
    import psutil

    for started in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            started.kill()
    folders.remove_and_end(_scratch)
    os._exit(1)


@functools.cache
def _watch_host(_pid: int) -> None:
    threading.Thread(target=_die_with_host, daemon=True, name="tenfold-host").start()


def _function(invitation: Invitation) -> Callable[[Any], Any]:
    if invitation.id not in _functions:
        _functions.clear()  # one call at a time: the last one's arrays need not stay mapped
        if isinstance(invitation.function, str):
            with open(invitation.function, "rb") as file:
                memory: parcel.Buffer = parcel.attach(file.fileno())
        else:
            memory = invitation.function
        _functions[invitation.id] = parcel.unpack(memory, writable=False)
    found: Callable[[Any], Any] = _functions[invitation.id]
    return found


def _run(
    invitation: Invitation,
    function: Callable[[Any], Any],
    seat: Seat,
    attempt: int,
    indices: Sequence[int],
    packed_items: bytes,
) -> Done:
    entries: list[tuple[float, bytes | None, bytes | None, Failure | None]] = []
    reports: list[tuple[int, int, int, dict[str, float], float]] = []
    has_process = invitation.claims is not None
    with Runner(
        function, invitation.job, seat, lambda *report: reports.append(report), whole_process=has_process
    ) as runner:
        try:
            items = parcel.unpack(bytearray(packed_items))
        except BaseException as error:
            failure = unsendable("one of its batch's items", error)
            entries = [(0.0, None, None, failure) for _ in indices]
            items = []
        runner.gather(indices, attempt, items)
        for index, item in zip(indices, items, strict=False):
            entries.append(_entry(*runner.run(index, attempt, item)))
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return Done(entries, reports, peak, seat.index, f"{socket.gethostname()}:{os.getpid()}")


def _entry(ok: bool, value: Any, seconds: float) -> tuple[float, bytes | None, bytes | None, Failure | None]:
    if not ok:
        return seconds, None, None, value
    try:
        packed = parcel.pack(value)
    except BaseException as error:
        return seconds, None, None, unsendable(f"its result ({type(value).__name__})", error)
    return (seconds, None, packed.to_bytes(), None) if packed.buffers else (seconds, packed.body, None, None)


# -- seats ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _seat(invitation: Invitation) -> Iterator[Seat]:
    if invitation.claims is None:
        yield invitation.seats[0]
        return
    with open(invitation.claims, "r+b", buffering=0) as file:
        index = _claim(file.fileno(), len(invitation.seats))
        seat = invitation.seats[index]
        with lent(seat, invitation.environment), _in_folder(invitation.folder):
            yield seat


@contextlib.contextmanager
def _in_folder(path: str) -> Iterator[None]:
    before = os.getcwd()
    with contextlib.suppress(OSError):  # the caller's folder is gone: stay where we are
        os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def _claim(file: int, count: int) -> int:
    """The number of a seat that nobody else uses now: our own, one without an owner, or any that is free.

    A byte lock marks a seat as in use and ends with our process, however that ends; the file says who had it last.
    """
    owners = [_OWNER.unpack(os.pread(file, _OWNER.size, n * _OWNER.size))[0] for n in range(count)]
    mine = [n for n in range(count) if owners[n] == os.getpid()]
    unowned = [n for n in range(count) if owners[n] == 0 or not _lives(owners[n])]
    others = [n for n in range(count) if n not in mine and n not in unowned]
    while True:
        for index in (*mine, *unowned, *others):
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _OWNER.size, index * _OWNER.size)
            except OSError:
                continue
            os.pwrite(file, _OWNER.pack(os.getpid()), index * _OWNER.size)
            return index


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
