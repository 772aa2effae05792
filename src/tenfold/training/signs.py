"""Signs of life: how the caller notices a worker that hangs, which no connection would tell."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tenfold.machine.host import host

BEAT_EVERY = 0.5
"""Seconds between two signs of life of a worker."""
SILENCE = 3.0  # seconds without one, after which a stopped process is ended
FAR_SILENCE = 4.0  # the same for one on another machine that has a pulse, which being busy does not stop
LONG_SILENCE = 60.0  # the same for one that has none and is not stopped: it may only be busy

KILL = b"tenfold: kill it"
"""What the caller sends to a pulse whose worker hangs."""

Place = tuple[str, int]
"""A machine, and a process on it."""


def overdue(silent: float, place: Place, *, pulse: bool) -> bool:
    """Whether a process on a machine has been silent for too long; `pulse` where a small process speaks for it."""
    return silent > (FAR_SILENCE if pulse else LONG_SILENCE) or (silent > SILENCE and _is_stopped(*place))


def end(where: str, pid: int) -> None:
    """Kill a process that hangs, where it is on this machine; elsewhere its pulse is told to."""
    if where == host():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _is_stopped(where: str, pid: int) -> bool:
    if where != host():
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False
