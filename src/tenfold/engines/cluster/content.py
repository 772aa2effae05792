"""Large content on a node: there once for all its processes, found by its digest.

The caller keeps it in nameless shared memory. A process on the same machine opens that through /proc. For another
machine it is sent in chunks to one process there; that keeps it in shared memory of its own and leaves a note where it
is, so that the other processes of that machine open it, too. Nothing but the note has a name: when the processes are
gone, so is the content.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenfold.machine.host import host
from tenfold.nursery import warming

CHUNK = 32 << 20  # bytes in one message: enough to fill a fast network, too few to matter in memory


@dataclass(frozen=True, slots=True)
class Notice:
    """What a node must know to find the content."""

    digest: str
    """Of all its bytes."""
    size: int
    """Bytes."""
    host: str
    """The machine of the caller."""
    path: str
    """Where the caller has it, for processes on that machine."""
    travels: bool
    """Whether it may be sent to other machines: then the digest is one of its bytes, otherwise just a name."""


def announce(handle: int, *, travels: bool) -> Notice:
    """In the caller: tell of the content of some shared memory. A digest takes a second for a gigabyte."""
    size = os.fstat(handle).st_size
    digest = _digest(handle, size) if travels else os.urandom(16).hex()
    return Notice(digest, size, host(), _address(handle), travels)


def _digest(handle: int, size: int) -> str:
    with mmap.mmap(handle, size, prot=mmap.PROT_READ) as memory, memoryview(memory) as view:
        return hashlib.blake2b(view, digest_size=16).hexdigest()


def chunks(handle: int) -> Iterator[tuple[int, bytes]]:
    """In the caller: the content piece by piece, each with its place."""
    size = os.fstat(handle).st_size
    for place in range(0, size, CHUNK):
        yield place, os.pread(handle, min(CHUNK, size - place), place)


# -- on a node --------------------------------------------------------------------------------------------------------

KEPT = 2  # contents that wait for the next call; a foreman that uses one has a descriptor of its own

_whole: dict[str, int] = {}
"""Descriptors of what was sent here, by digest, the oldest first."""
_partial: dict[str, tuple[int, int]] = {}
"""Descriptors of what is still coming, and how many bytes are here."""


def has(notice: Notice) -> bool:
    """Whether the content can be had on this node without sending it."""
    found = _find(notice)
    if found is not None:
        os.close(found)
    return found is not None


def add(notice: Notice, place: int, chunk: bytes) -> None:
    """Take a piece that has been sent. Pieces come in order."""
    if notice.digest in _whole:
        return
    handle, size = _partial.get(notice.digest) or (os.memfd_create(_named(notice)), 0)
    if place == 0 and size:  # a caller that was killed while it sent the same
        size = 0
    view = memoryview(chunk)
    while view:
        written = os.pwrite(handle, view, place)
        view, place, size = view[written:], place + written, size + written
    _partial[notice.digest] = handle, size
    if size == notice.size:
        del _partial[notice.digest]
        _whole[notice.digest] = handle
        _note(notice.digest).write_text(_address(handle))
        _forget_older(KEPT)


def take(notice: Notice) -> int:
    """A descriptor of the content, which the caller closes."""
    found = _find(notice)
    if found is None:
        raise FileNotFoundError(f"content {notice.digest} was not sent to this machine")
    return found


def echo(data: bytes) -> bytes:
    """What was sent, to see how long that takes."""
    return data


def forget() -> None:
    """Let go of everything."""
    _forget_older(0)
    for handle, _ in _partial.values():
        os.close(handle)
    _partial.clear()


def _forget_older(kept: int) -> None:
    while len(_whole) > kept:
        digest = next(iter(_whole))
        handle = _whole.pop(digest)
        note = _note(digest)
        if note.exists() and note.read_text() == _address(handle):
            note.unlink(missing_ok=True)
        os.close(handle)


def _find(notice: Notice) -> int | None:
    """A new descriptor of the content: the caller's own, what was sent to us, or to another process of this machine."""
    if notice.digest in _whole:
        return os.dup(_whole[notice.digest])
    if notice.host == host():
        return _open(notice.path, notice.size, "tenfold")
    note = _note(notice.digest)
    return _open(note.read_text(), notice.size, _named(notice)) if note.exists() else None


def _note(digest: str) -> Path:
    return warming.place() / f"content-{digest}"


def _address(handle: int) -> str:
    return f"/proc/{os.getpid()}/fd/{handle}"


def _named(notice: Notice) -> str:
    return f"tenfold-{notice.digest}"


def _open(path: str, size: int, name: str) -> int | None:
    """What a descriptor of another process holds, where it still is what was said of it."""
    try:
        if not os.readlink(path).startswith(f"/memfd:{name} "):
            return None
        handle = os.open(path, os.O_RDWR)
    except OSError:  # its process is gone, or somebody else's
        return None
    if os.fstat(handle).st_size == size:
        return handle
    os.close(handle)
    return None
