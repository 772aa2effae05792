"""Calls of the command line: in a process of its own, as people make them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result

import scripts

Run = Callable[..., Result]
"""The fixture `run`: `run("map", "train.py:train", ...)` in this process."""

COMMAND = [sys.executable, "-m", "tenfold.cli"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What a call did."""

    status: int
    """Its exit status."""
    out: str
    """Its stdout."""
    err: str
    """Its stderr."""

    @property
    def json(self) -> Any:
        """stdout, which holds one JSON value and nothing else."""
        return json.loads(self.out)


def environment(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """No warm nursery of somebody else is used: those that wait for this folder are in it."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder), **(variables or {})}


def tenfold(folder: Path, *words: str, given: str = "", variables: Mapping[str, str] | None = None) -> Ended:
    """`tenfold WORDS...` in `folder`, to its end."""
    return _ended([*COMMAND, *words], folder, given, variables)


@contextlib.contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`tenfold WORDS...` while the block runs; what it writes to stderr is in the file "stderr"."""
    with open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def python(folder: Path, code: str) -> Ended:
    """A few lines of Python in `folder`, to their end."""
    return _ended([sys.executable, "-c", code], folder, variables=scripts.HASTY)


def _ended(words: list[str], folder: Path, given: str = "", variables: Mapping[str, str] | None = None) -> Ended:
    found = subprocess.run(
        words,
        input=given,
        cwd=folder,
        env=environment(folder, variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ended(found.returncode, found.stdout, found.stderr)


class Terminal:
    """What a call shows on one."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self._seen = b""
        os.set_blocking(screen, False)

    @property
    def seen(self) -> str:
        """Everything so far; lines that were written over are there as well."""
        with contextlib.suppress(BlockingIOError, OSError):  # nothing new; or the call has ended
            while more := os.read(self._screen, 1 << 16):
                self._seen += more
        return self._seen.decode(errors="replace")


@contextlib.contextmanager
def on_terminal(folder: Path, *words: str) -> Iterator[Terminal]:
    """`tenfold WORDS...` whose stderr is a terminal, while the block runs."""
    screen, theirs = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env=environment(folder, {"TERM": "xterm", "COLUMNS": "160"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)
