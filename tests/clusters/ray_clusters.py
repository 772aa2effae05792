"""Real Ray clusters for tests, and which processes of them do what."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

import leftovers
import scripts
import waiting
from tenfold.engines import ray as ray_engine

START_LIMIT = 60.0
TOKEN = "a" * 32
TOKEN_VARIABLES = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """For Ray's files: its sockets need a short name, and it leaves everything behind."""
    found = tempfile.mkdtemp(prefix="tfr-test-", dir="/tmp")
    try:
        yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)


# -- in the process of the tests --------------------------------------------------------------------------------------


@contextlib.contextmanager
def joined(**options: Any) -> Iterator[Any]:
    """This process in a cluster that `ray.init` starts, as a user's script would; Ray's module."""
    import ray

    with folder() as place, _in_a_cluster():
        ray.init(
            "local", include_dashboard=False, log_to_driver=False, configure_logging=False, _temp_dir=place, **options
        )
        yield ray


@contextlib.contextmanager
def nodes(*arguments: dict[str, Any]) -> Iterator[Any]:
    """A cluster of several nodes on this machine, which this process has joined; `add_node` adds one."""
    import ray
    from ray.cluster_utils import Cluster

    with folder() as place, _in_a_cluster():
        head = {**arguments[0], "include_dashboard": False, "temp_dir": place}
        (Path(tempfile.gettempdir()) / "ray").mkdir(exist_ok=True)  # where it notes its address, whatever temp_dir is
        cluster = Cluster()
        try:
            cluster.add_node(**head)
            for node in arguments[1:]:
                cluster.add_node(**node)
            cluster.wait_for_nodes()
            ray.init(cluster.address, log_to_driver=False, configure_logging=False)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@contextlib.contextmanager
def _in_a_cluster() -> Iterator[None]:
    import ray

    leftovers.clusters.ray = True
    before = dict(os.environ)
    mine = set(processes(os.getpid()))
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise the first cluster switches tokens on in this process, and the second one does not know it.
        patch.setenv("RAY_AUTH_MODE", "disabled")
        try:
            yield
        finally:
            ray_engine.close()
            ray.shutdown()
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            kept = mine | leftovers.nursery_processes()
            waiting.until(lambda: not set(processes(os.getpid())) - kept, 15, "the end of Ray")
            leftovers.clusters.ray = False


@contextlib.contextmanager
def in_the_background() -> Iterator[None]:
    """Processes of Ray are to be expected, though this one is in no cluster."""
    leftovers.clusters.ray = True
    try:
        yield
    finally:
        leftovers.clusters.ray = False


def wait_for(path: Path, script: scripts.Script, seconds: float = 60.0) -> None:
    """Until a task of a script has made a file."""
    waiting.until(lambda: path.exists() or script.process.poll() is not None, seconds, f"{path}")
    assert script.process.poll() is None, script.err


# -- processes --------------------------------------------------------------------------------------------------------


def processes(pid: int) -> list[int]:
    """Ray's processes below a process."""
    found = []
    for child in scripts.descendants(pid):
        with contextlib.suppress(psutil.Error):
            words = " ".join(psutil.Process(child).cmdline())
            if "ray::" in words or "/ray/" in words:
                found.append(child)
    return found


def actors(pid: int, name: str) -> list[int]:
    """The processes below a process that hold an actor of this class."""
    found = []
    for child in scripts.descendants(pid):
        with contextlib.suppress(psutil.Error):
            if psutil.Process(child).cmdline()[:1] and psutil.Process(child).cmdline()[0].startswith(f"ray::{name}"):
                found.append(child)
    return found


# -- in a process of its own ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """A cluster that `ray start --head` has started."""

    process: subprocess.Popen[bytes]
    """The command, which stays."""
    port: int
    """Where its nodes meet."""
    client_port: int
    """Where Ray Client is answered."""

    @property
    def address(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"


@contextlib.contextmanager
def head(cwd: Path, variables: Mapping[str, str] | None = None, *options: str) -> Iterator[Head]:
    """A cluster of one node, as an administrator starts it; it sees nothing of the tests' import path."""
    port, client_port = free_port(), free_port()
    with folder() as place:
        command = ["start", "--head", f"--port={port}", f"--ray-client-server-port={client_port}", "--num-cpus=2"]
        process = _start(cwd, variables, [*command, "--include-dashboard=false", f"--temp-dir={place}", *options])
        try:
            waiting.until(lambda: _answers(client_port) or process.poll() is not None, START_LIMIT, "a Ray head")
            assert process.poll() is None, (cwd / "ray.out").read_text()
            yield Head(process, port, client_port)
        finally:
            end(process)


@contextlib.contextmanager
def worker(cwd: Path, port: int, variables: Mapping[str, str] | None = None, *options: str) -> Iterator[int]:
    """Another node, in a process of its own; its process id."""
    process = _start(cwd, variables, ["start", f"--address=127.0.0.1:{port}", "--num-cpus=2", *options], "node.out")
    try:
        yield process.pid
    finally:
        end(process)


def _start(
    cwd: Path, variables: Mapping[str, str] | None, words: list[str], out: str = "ray.out"
) -> subprocess.Popen[bytes]:
    with open(cwd / out, "wb") as file:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "ray.scripts.scripts", *words, "--block", "--disable-usage-stats"],
            cwd=cwd,
            env={**leftovers.variables(), **TOKEN_VARIABLES, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a node and everything below it; its workers have groups of their own."""
    below = scripts.descendants(process.pid)
    for pid in (process.pid, *below):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait(10)
    for pid in below:
        waiting.for_exit(pid, 10)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False
