"""Folders of tasks: made when one is wanted, and gone for good with a process that is about to end."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

PATIENCE = 10.0  # seconds; a folder that cannot be removed must not keep a process alive

_making = threading.Lock()
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


def make(path: Path) -> Path:
    """The folder `path`, made for this user alone where it is not there, as is the one around it."""
    with _making:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def remove_and_end(paths: Iterable[str]) -> None:
    """Remove folders that other processes are removing as well; from now on, this process makes none."""
    _making.acquire()  # for good: a task that is still running would make its folder again
    deadline = time.monotonic() + PATIENCE
    for path in paths:
        while os.path.exists(path) and time.monotonic() < deadline:  # they get in each other's way
            shutil.rmtree(path, ignore_errors=True)
