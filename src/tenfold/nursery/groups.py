"""Process groups: a worker leads one, and whatever it starts is in it, or becomes a child of its nursery in the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)  # opened once, in the nursery


def die_with(parent: int) -> None:
    """Have this process, which `parent` has just forked, killed when that is gone."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def adopt_orphans() -> None:
    """Processes whose parent is gone become children of this one, also those that made a session of their own."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """The processes whose parent this one is."""
    try:
        return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:  # a kernel without it
        return []


def kill(leader: int) -> None:
    """Kill a worker and whatever it started; it may be gone already, or not have made its group yet."""
    if leader <= 0:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)


def kill_rest(leader: int) -> None:
    """Kill whatever a worker started that is gone, and whose number may be somebody else's by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leader > 0:
            os.killpg(leader, signal.SIGKILL)
