"""Starts the scripts that a benchmark compares, each in a fresh interpreter, and times or weighs them.

Every script sees the same environment: no variable that would change a library or its threads, no nursery that the
person at this machine keeps warm, and a TensorFlow that says nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

SCRIPTS = Path(__file__).parent / "scripts"
SAMPLE_EVERY = 0.1  # seconds between two looks at the memory
SETTLE = 0.2  # seconds after a script, so that what it left behind (a resource tracker, workers) is gone
LIMIT = 300.0  # seconds after which a script is given up

# An installed package has its bytecode. Without it, tenfold alone would be compiled anew in each process (0.07 s).
_NO_BYTECODE = ("PYTHONDONTWRITEBYTECODE",)
_OF_LIBRARIES = ("TENFOLD_", "OMP_", "MKL_", "OPENBLAS_", "TF_", "KERAS_", "LOKY_", "JOBLIB_", "DASK_", "RAY_ADDRESS")
_CHANGES_RESULTS = (*_OF_LIBRARIES, *_NO_BYTECODE)
_OWN_FOLDER = "XDG_RUNTIME_DIR"


class ScriptFailed(RuntimeError):
    """A script of the benchmark ended with an error."""


@contextlib.contextmanager
def environment() -> Iterator[dict[str, str]]:
    """What a script sees; XDG_RUNTIME_DIR, where a warm nursery would wait, is an empty folder of its own.

    Ray keeps its files there, too: it never removes them.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CHANGES_RESULTS)}
        yield kept | {"TF_CPP_MIN_LOG_LEVEL": "3", _OWN_FOLDER: folder, "RAY_TMPDIR": folder}


class Agreement:
    """Refuses a contestant that does not print the losses that the first one printed."""

    def __init__(self) -> None:
        self._first: list[float] = []

    def __call__(self, printed: str) -> None:
        losses = [float(line.rpartition(" ")[2]) for line in printed.splitlines() if line.startswith("Iteration")]
        self._first = self._first or losses
        # Other thread counts add up in another order; the losses are printed with 4 digits.
        pairs = zip(losses, self._first, strict=True)
        if not losses or not all(math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-3) for pair in pairs):
            raise ScriptFailed(f"the scripts disagree: {losses} and {self._first}")


class SameRows:
    """Refuses a contestant that does not end with the rows that the first one had; returns its seconds."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._first: dict[str, Any] | None = None

    def __call__(self, printed: str) -> float:
        found = json.loads(printed.splitlines()[-1])
        first = self._first = self._first or found
        if found["rows"] != first["rows"] or not math.isclose(found["sum"], first["sum"], rel_tol=self._tolerance):
            raise ScriptFailed(f"the results disagree: {found} and {first}")
        return float(found["seconds"])


def command(script: str, *arguments: object) -> list[str]:
    """How `scripts/<script>.py` is started."""
    return [sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, arguments)]


def run(words: Sequence[str], variables: dict[str, str]) -> tuple[float, str]:
    """Seconds from the start of the interpreter to its exit, and what it printed."""
    with _started(words, variables) as (process, output, began):
        process.wait(LIMIT)
        seconds = time.perf_counter() - began
    time.sleep(SETTLE)
    return seconds, output[0]


def timed(words: Sequence[str], variables: dict[str, str], check: SameRows) -> float:
    """The seconds that a script says it took; LIMIT for one that is given up."""
    try:
        _, printed = run(words, variables)
    except subprocess.TimeoutExpired:
        print(f"  given up after {LIMIT:g} s: {' '.join(words)}", file=sys.stderr, flush=True)
        return LIMIT
    return check(printed)


def weigh(words: Sequence[str], variables: dict[str, str], also: Iterable[int] = ()) -> tuple[int, str]:
    """The most memory (sum of PSS) of a script and all that it started, and of `also`; what it printed.

    The nursery of a cluster's node is nobody's child: it is found by the folder that is this script's alone.
    """
    peak = 0
    with _started(words, variables) as (process, output, began):
        while process.poll() is None:
            peak = max(peak, tree_memory([process.pid, *also, *_strays(variables)]))
            if time.perf_counter() - began > LIMIT:
                raise subprocess.TimeoutExpired(list(words), LIMIT)
            time.sleep(SAMPLE_EVERY)
    time.sleep(SETTLE)
    return peak, output[0]


def tree_memory(roots: Iterable[int]) -> int:
    """Bytes that these processes and their descendants hold; a page that several share counts once (PSS)."""
    family: dict[int, psutil.Process] = {}
    for root in roots:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(root)
            family |= {process.pid: process for process in (parent, *parent.children(recursive=True))}
    return sum(map(_pss, family.values()))


def _strays(variables: dict[str, str]) -> Iterator[int]:
    """Processes that were started with this environment's own folder, whoever their parent is."""
    mark = f"{_OWN_FOLDER}={variables[_OWN_FOLDER]}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone by now, or another user's
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _end_strays(variables: dict[str, str]) -> None:
    """End what a script that was given up has started: it would disturb the next one."""
    for pid in _strays(variables):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _pss(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return int(process.memory_full_info().pss)
    return 0


@contextlib.contextmanager
def _started(
    words: Sequence[str], variables: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], list[str], float]]:
    """The running script, where its output will be when the block has ended, and when it was started.

    Output goes to files: the end of a pipe would come only when the last of the script's children is gone.
    """
    output: list[str] = []
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        began = time.perf_counter()
        process = subprocess.Popen(words, env=variables, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL)
        try:
            yield process, output, began
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
                _end_strays(variables)
        for file in (stdout, stderr):
            file.seek(0)
            output.append(file.read().decode(errors="replace"))
        if process.returncode != 0:
            raise ScriptFailed(f"{' '.join(words)} ended with {process.returncode}:\n{output[1]}")
