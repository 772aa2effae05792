"""Sees to it that a Ray cluster of our own ends with its caller, also when that is killed: Ray's processes would stay.

A small process waits for the caller's end, then kills every process that works in the cluster's folder, and removes
the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tenfold.nursery import client

_CODE = "import sys; sys.path[:] = {path!r}; from {module} import wait; wait({life}, {folder!r}, {caller})"
LIMIT = 10.0  # seconds; Ray's processes start others while they end


class Watch:
    """The caller's end of it."""

    def __init__(self, folder: str) -> None:
        life_theirs, self._life = os.pipe()
        code = _CODE.format(path=sys.path, module=__name__, life=life_theirs, folder=folder, caller=os.getpid())
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self._process = subprocess.Popen(client.command(code), pass_fds=(life_theirs,), start_new_session=True, **quiet)
        os.close(life_theirs)

    def close(self) -> None:
        """End the cluster, and wait until it is gone."""
        os.close(self._life)
        self._process.wait(2 * LIMIT)


def wait(life: int, folder: str, caller: int) -> None:
    """In the process: until the other end of `life` is closed."""
    os.read(life, 1)
    deadline = time.monotonic() + LIMIT
    while (found := _working_in(folder) - {caller, os.getpid()}) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def _working_in(folder: str) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # gone, or somebody else's
            if entry.name.isdigit() and _is_rays(entry, folder):
                found.add(int(entry.name))
    return found


def _is_rays(entry: Path, folder: str) -> bool:
    """Ray gives its folder to every process that it starts; those that rename themselves have files open in it."""
    words = (entry / "cmdline").read_bytes()
    if words.startswith(b"ray::"):
        return any(os.readlink(handle).startswith(folder) for handle in (entry / "fd").iterdir())
    return b"/ray/" in words and folder.encode() in words
