"""Real Dask clusters for tests: a scheduler and workers as a user starts them, each a process with a log.

A cluster has a runtime folder and a temporary folder of its own, so that its nurseries are nobody else's. When it ends,
all that came from it must end too: that is asserted here, because the check after each test comes too early for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import leftovers
import waiting

CLUSTER = "TENFOLD_TEST_CLUSTER"
HERE = "127.0.0.1"


class Host:
    """Where processes are started: this machine as it is, with folders of its own."""

    def __init__(self, folder: Path, address: str = HERE, prefix: Sequence[str] = ()) -> None:
        self.address = address
        self.prefix = list(prefix)
        self.runtime = folder / "run"
        self.temporary = folder / "tmp"
        self.runtime.mkdir(parents=True)
        self.temporary.mkdir()

    def variables(self) -> dict[str, str]:
        return {"XDG_RUNTIME_DIR": str(self.runtime), "TMPDIR": str(self.temporary)}


class Process:
    """A scheduler or a worker."""

    def __init__(
        self, cluster: Cluster, host: Host, words: Sequence[str], name: str, variables: Mapping[str, str]
    ) -> None:
        self.name = name
        self._log = cluster.folder / f"{name}.log"
        environment = {key: value for key, value in leftovers.variables().items() if key != "PYTHONPATH"}
        environment |= {CLUSTER: str(cluster.folder), "PYTHONUNBUFFERED": "1", **host.variables(), **variables}
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                [*host.prefix, sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cluster.folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def says(self, text: str, seconds: float = 30.0) -> None:
        """Wait until it has written something."""
        waiting.until(lambda: text in self.log or self.process.poll() is not None, seconds, f"{text!r} in {self.log}")
        assert text in self.log, f"{self.name} has ended: {self.log}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()


class Cluster:
    """A scheduler, and the workers that are started for it."""

    def __init__(self, folder: Path, host: Host | None = None, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.host = host or Host(folder / "h")
        self._options = list(options)  # of the scheduler and of each worker
        self._processes: list[Process] = []
        place = folder / "scheduler.json"
        words = ["distributed.cli.dask_scheduler", "--host", self.host.address, "--port", "0"]
        words += ["--dashboard-address", f"{HERE}:0", "--no-dashboard", "--scheduler-file", str(place), *self._options]
        self.scheduler = self._start(self.host, words, "scheduler", {})
        self.scheduler.says("Scheduler at:")
        line = next(line for line in self.scheduler.log.splitlines() if "Scheduler at:" in line)
        self.address = line.split()[-1]
        """As a user gives it: tcp://127.0.0.1:43210."""

    def worker(
        self,
        *options: str,
        threads: int = 1,
        host: Host | None = None,
        variables: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Process:
        """Start a worker; returns when the scheduler has it."""
        host = host or self.host
        name = f"worker{len(self._processes)}"
        words = ["distributed.cli.dask_worker", self.address, "--host", host.address, "--nthreads", str(threads)]
        words += ["--dashboard-address", f"{HERE}:0", "--no-dashboard", "--memory-limit", "0", "--name", name]
        words += ["--local-directory", str(host.temporary), "--death-timeout", "20", *self._options, *options]
        words += [] if "--nanny" in options else ["--no-nanny"]
        found = self._start(host, words, name, variables or {})
        if wait:
            found.says("Registered to:")
        return found

    def address_of(self, worker: Process) -> str:
        """What the scheduler calls a worker."""
        line = next(line for line in worker.log.splitlines() if "Start worker at:" in line)
        return line.split()[-1]

    def processes(self) -> list[int]:
        """Everything that came from it, at whatever distance; tasks on the caller's machine come from the caller."""
        # A nursery may have another environment; its command line has its socket.
        mark, place = f"{CLUSTER}={self.folder}".encode(), f"{self.folder}/".encode()
        found = [pid for pid in _all_pids() if mark in environment(pid) or place in _words(pid)]
        return [pid for pid in found if waiting.lives(pid)]

    def end(self) -> None:
        for process in reversed(self._processes):
            if process.process.poll() is None:
                process.end()

    def _start(self, host: Host, words: list[str], name: str, variables: Mapping[str, str]) -> Process:
        found = Process(self, host, words, name, variables)
        self._processes.append(found)
        return found


@contextlib.contextmanager
def running(
    host: Host | None = None, *, options: Sequence[str] = (), threads: Sequence[int] = (), **more: Any
) -> Iterator[Cluster]:
    """A cluster with one worker for each of `threads`; at its end, nothing of it is left."""
    from tenfold.engines import dask

    folder = Path(tempfile.mkdtemp(prefix="c-"))
    before, leftovers.clusters.dask = leftovers.clusters.dask, True
    cluster = None
    try:
        cluster = Cluster(folder, host, options)
        for worker in [cluster.worker(threads=count, wait=False, **more) for count in threads]:
            worker.says("Registered to:")
        yield cluster
    finally:
        dask.close()
        if cluster is not None:
            cluster.end()
            left = _wait_for_none(cluster.processes)
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)
            assert not left, f"outlived their cluster: {left}"
        leftovers.clusters.dask = before


def _wait_for_none(find: Callable[[], list[int]], seconds: float = 8.0) -> list[int]:
    """Those that stay all the same."""
    try:
        waiting.until(lambda: not find(), seconds)
    except AssertionError:
        return find()
    return []


# -- tasks leave traces -----------------------------------------------------------------------------------------------


def trace(folder: Path, x: int, kind: str = "ended") -> None:
    """In a task: it was here, in this process."""
    with open(folder / f"{kind} {x}", "a") as file:
        file.write(f"{os.getpid()}\n")


def traces(folder: Path, kind: str = "ended") -> dict[int, list[int]]:
    """Task -> the processes that it ran in, in order."""
    found = {}
    for path in folder.glob(f"{kind} *"):
        found[int(path.name.split()[-1])] = [int(line) for line in path.read_text().splitlines()]
    return found


def committed(run: Path) -> set[int]:
    """Tasks that the journal of a run has as finished."""
    from tenfold.errors import RunUnusable
    from tenfold.journal.folder import Folder
    from tenfold.journal.store import Journal

    try:
        with contextlib.closing(Journal(Folder(run), read_only=True)) as journal:
            return {index for first, count in journal.finished() for index in range(first, first + count)}
    except (RunUnusable, sqlite3.OperationalError):  # there is none yet, or it is being made
        return set()


# -- /proc ------------------------------------------------------------------------------------------------------------


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
