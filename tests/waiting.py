"""Waits for something to become true, with a deadline: tests and their tasks never sleep and hope."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

STEP = 0.005


def until(condition: Callable[[], T], seconds: float = 20.0, what: str = "the condition") -> T:
    """The first true answer of `condition`; AssertionError when there is none within `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds:g} s (last: {answer!r})"
        time.sleep(STEP)


def for_file(path: str | Path, seconds: float = 20.0) -> str:
    """The content of a file, as soon as there is one."""
    until(lambda: Path(path).exists() and Path(path).stat().st_size, seconds, f"a content of {path}")
    return Path(path).read_text()


def for_exit(pid: int, seconds: float = 20.0) -> None:
    """Until a process is gone, or is only waiting to be reaped."""
    until(lambda: not lives(pid), seconds, f"the end of process {pid}")


def lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"
