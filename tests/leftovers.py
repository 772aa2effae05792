"""What a test may leave behind, and what was there before: processes, threads, variables, files, descriptors.

Every process that comes from this test session, at whatever distance, has `MARK` in the environment that it was
started with; so also one that lost its parents is found.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

MARK = "TENFOLD_TEST_SESSION"


class Before:
    """How things are when a test begins; `faults` says what has been added since."""

    def __init__(self) -> None:
        self._processes = processes()
        self._threads = set(threading.enumerate())
        self._variables = variables()
        self._files = files()
        self._hosts = hosts_processes()
        self._descriptors = len(descriptors())

    def faults(self, *, with_descriptors: bool = True) -> list[str]:
        faults = self._found(with_descriptors)
        if faults:
            gc.collect()  # 25 ms: only where something seems to be left
            faults = self._found(with_descriptors)
        return faults

    def _found(self, with_descriptors: bool) -> list[str]:
        faults = [f"process {pid}: {text}" for pid, text in processes().items() if pid not in self._processes]
        faults += [f"thread {thread.name}" for thread in threading.enumerate() if self._is_new(thread)]
        faults += [f"os.environ: {name}" for name in _changed(self._variables, variables())]
        faults += [f"file {path}" for path in sorted(files() - self._files)]
        opened = descriptors()
        # joblib keeps its workers and the pipes to them: then descriptors cannot be compared.
        same_hosts = self._hosts == hosts_processes() and not clusters.dask and not clusters.ray
        if with_descriptors and same_hosts and len(opened) > self._descriptors:
            faults.append(f"{len(opened) - self._descriptors} more descriptors; there are {sorted(opened.values())}")
        return faults

    def clear(self) -> None:
        """End what was left behind, so that the next test is judged by itself."""
        for pid in processes().keys() - self._processes.keys():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for path in files() - self._files:
            shutil.rmtree(path, ignore_errors=True)

    def _is_new(self, thread: threading.Thread) -> bool:
        return thread not in self._threads and thread.is_alive() and not _is_hosts_thread(thread)


def processes() -> dict[int, str]:
    """Processes that come from this session, other than itself, its nursery and what joblib keeps.

    Asked several times for each test: so most processes cost one file that is read.
    """
    mark = f"{MARK}={os.environ[MARK]}\0".encode()
    hosts = hosts_processes()
    kept = {os.getpid(), *nursery_processes(), *hosts}
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in kept:
            continue
        entry = Path("/proc", name)
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read()
            # A zombie has no environment any more.
            is_ours = _has(environment, mark) or (not environment and _is_our_zombie(entry))
            if is_ours and not _is_nursery_of(entry, hosts) and not _is_clusters(entry):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(name)] = " ".join(word.decode(errors="replace") for word in words)[:200] or "a zombie"
        except OSError:  # gone by now
            continue
    return found


def _has(environment: bytes, variable: bytes) -> bool:
    return environment.startswith(variable) or b"\0" + variable in environment


def _is_our_zombie(entry: Path) -> bool:
    state, parent = _state(entry)
    return state == "Z" and parent == os.getpid()


def _is_nursery_of(entry: Path, hosts: frozenset[int]) -> bool:
    """A process that joblib keeps has a nursery like any other, once a task in it has called `map`."""
    _, parent = _state(entry)
    return parent in hosts and b"tenfold.nursery.process" in (entry / "cmdline").read_bytes()


def _is_clusters(entry: Path) -> bool:
    """A process of a cluster that a module's tests share, or the nursery of its nodes; not one of its workers."""
    words = (entry / "cmdline").read_bytes()
    _, parent = _state(entry)
    if b"tenfold.nursery.warming" in words and b"/shared-" in words:
        return b"/shared-" not in Path(f"/proc/{parent}/cmdline").read_bytes()
    if clusters.dask and (b"dask_process" in words or b"distributed.cli" in words or b"dask" in words):
        return True
    return clusters.ray and (b"/ray/" in words or b"ray::" in words or b"ray.util.client" in words)


class Clusters:
    """Which clusters are up now, by will of a fixture."""

    dask = False
    ray = False


clusters = Clusters()


def _state(entry: Path) -> tuple[str, int]:
    state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)


def nurseries() -> list[Any]:
    """This process's connections to nurseries: its own, and one for each environment that a call has wanted."""
    client = sys.modules.get("tenfold.nursery.client")
    return [found for found in (client._current, *client._special.values()) if found is not None] if client else []


def nursery_processes() -> set[int]:
    return {found._process.pid for found in nurseries() if found._process is not None}


def hosts_processes() -> frozenset[int]:
    """Processes that joblib keeps for its next call."""
    reusable = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(reusable, "_executor", None)
    if executor is None:
        return frozenset()
    names = ("joblib.externals.loky.backend.resource_tracker", "multiprocessing.resource_tracker")
    trackers = {sys.modules[name]._resource_tracker._pid for name in names if name in sys.modules}
    return frozenset({*trackers, *(executor._processes or {})} - {None})


def _is_hosts_thread(thread: threading.Thread) -> bool:
    ours = ("ExecutorManagerThread", "QueueFeederThread")
    dasks = ("IO loop", "Dask-", "TCP-Executor", "Profile", "asyncio_") if clusters.dask else ()
    rays = ("ray_", "Thread-", "grpc", "raylet", "PythonGCThread") if clusters.ray else ()
    return thread.name.startswith((*ours, *dasks, *rays))


def variables() -> dict[str, str]:
    # pytest's; set by `import joblib`; set by `import threadpoolctl` (engines/test_contract_caller.py asks about that)
    # `import ray` sets the last one
    others = ("PYTEST_CURRENT_TEST", "KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK", "RAY_CLIENT_MODE")
    return {name: value for name, value in os.environ.items() if name not in others}


def _changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    names = sorted(before.keys() | now.keys())
    return [
        f"{name}={now.get(name)!r}, was {before.get(name)!r}" for name in names if before.get(name) != now.get(name)
    ]


def files() -> set[str]:
    folders = (tempfile.gettempdir(), "/dev/shm")
    found = {f"{folder}/{name}" for folder in folders for name in os.listdir(folder) if name.startswith("tenfold")}
    return {path for path in found if not (clusters.dask and "tenfold-dask-" in path) and not _is_others(path)}


def _is_others(path: str) -> bool:
    """A file in shared memory, of a process that comes from another session."""
    numbers = [word for word in path.removeprefix("/dev/shm/").split("-") if word.isdigit()]
    try:
        environment = Path("/proc", numbers[0], "environ").read_bytes() if path.startswith("/dev/shm/") else b""
    except (OSError, IndexError):
        return False
    return bool(environment) and not _has(environment, f"{MARK}={os.environ[MARK]}\0".encode())


def descriptors() -> dict[int, str]:
    """Open descriptors of this process and what they are, without those of its nursery."""
    kept: set[int] = set()
    for current in nurseries():
        kept |= {current._wire.fileno(), current.life or -1, current.log.fileno() if current.log else -1}
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that listed this folder
            continue
        if int(name) not in kept:
            found[int(name)] = target
    return found
