"""Which ports processes listen on, also those of another network namespace."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_LISTEN = "0A"  # as /proc/net/tcp has it


def ports(pids: Iterable[int]) -> dict[int, set[int]]:
    """Process -> its listening ports; those that have ended are left out."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            found[pid] = _ports(pid)
    return found


def _ports(pid: int) -> set[int]:
    found = set()
    sockets = _sockets(pid)
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, near, _, state, *_, inode = line.split()[:10]
            if state == _LISTEN and inode in sockets:
                found.add(int(near.rpartition(":")[2], 16))
    return found


def _sockets(pid: int) -> set[str]:
    """Inodes of the sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(entry)
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found
