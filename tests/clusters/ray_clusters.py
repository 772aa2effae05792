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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask_clusters
import psutil
import pytest
from dask_clusters import HERE, Host

import leftovers
import scripts
import waiting
from tenfold.engines import ray as ray_engine

START_LIMIT = 60.0
TOKEN = "a" * 32
ON_HOST = "TENFOLD_TEST_HOST"
TOKEN_VARIABLES = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
OPEN = {"RAY_AUTH_MODE": "disabled"}


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

    with folder() as place, in_a_cluster():
        ray.init(
            "local", include_dashboard=False, log_to_driver=False, configure_logging=False, _temp_dir=place, **options
        )
        yield ray


@contextlib.contextmanager
def nodes(*arguments: dict[str, Any]) -> Iterator[Any]:
    """A cluster of several nodes on this machine, which this process has joined; `add_node` adds one."""
    import ray
    from ray.cluster_utils import Cluster

    with folder() as place, in_a_cluster():
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
def in_a_cluster() -> Iterator[Any]:
    """This process joins one, by the user's own means: Ray's module."""
    import ray

    leftovers.clusters.ray = True
    before = dict(os.environ)
    mine = set(processes(os.getpid()))
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise the first cluster switches tokens on in this process, and the second one does not know it.
        patch.setenv("RAY_AUTH_MODE", "disabled")
        try:
            yield ray
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
    host: str = HERE
    """Its address."""

    @property
    def address(self) -> str:
        return f"ray://{self.host}:{self.client_port}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node on another host."""

    process: subprocess.Popen[bytes]
    """The command, which stays."""
    mark: bytes
    """In the environment of everything that comes from it."""

    def processes(self) -> list[int]:
        """Everything that came from it, at whatever distance."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if self.mark in dask_clusters.environment(pid) and waiting.lives(pid)]


@contextlib.contextmanager
def head(
    cwd: Path, variables: Mapping[str, str] | None = None, *options: str, cpus: int = 2, host: str = HERE
) -> Iterator[Head]:
    """A cluster of one node, as an administrator starts it; it sees nothing of the tests' import path."""
    port, client_port = free_port(), free_port()
    with folder() as place:
        words = ["start", "--head", f"--port={port}", f"--ray-client-server-port={client_port}", f"--num-cpus={cpus}"]
        words += ["--include-dashboard=false", f"--temp-dir={place}", *_at(host), *options]
        process = _start(cwd, variables, words)
        try:
            waiting.until(lambda: _answers(host, client_port) or process.poll() is not None, START_LIMIT, "a Ray head")
            assert process.poll() is None, (cwd / "ray.out").read_text()
            yield Head(process, port, client_port, host)
        finally:
            end(process)


@contextlib.contextmanager
def worker(cwd: Path, port: int, variables: Mapping[str, str] | None = None, *options: str) -> Iterator[int]:
    """Another node, in a process of its own; its process id."""
    process = _start(cwd, variables, ["start", f"--address={HERE}:{port}", "--num-cpus=2", *options], "node.out")
    try:
        yield process.pid
    finally:
        end(process)


@contextlib.contextmanager
def on_host(cwd: Path, head: Head, host: Host, variables: Mapping[str, str] | None = None) -> Iterator[Node]:
    """A node on another host, with two CPUs; what it has started ends with it."""
    mark = {ON_HOST: f"{host.address} {os.urandom(4).hex()}"}
    with folder() as place:
        words = ["start", f"--address={head.host}:{head.port}", "--num-cpus=2", f"--temp-dir={place}"]
        variables = {**host.variables(), **(variables or {}), **mark}
        process = _start(cwd, variables, [*words, *_at(host.address)], f"{host.address}.out", host.prefix)
        node = Node(process, f"{ON_HOST}={mark[ON_HOST]}".encode())
        try:
            yield node
        finally:
            end(process)
            waiting.until(lambda: not node.processes(), 15, "the end of all that a Ray node has started")


def _at(host: str) -> list[str]:
    return [] if host == HERE else [f"--node-ip-address={host}"]


def _start(
    cwd: Path, variables: Mapping[str, str] | None, words: list[str], out: str = "ray.out", prefix: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    with open(cwd / out, "wb") as file:
        return subprocess.Popen(
            [*prefix, sys.executable, "-P", "-m", "ray.scripts.scripts", *words, "--block", "--disable-usage-stats"],
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


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), 1).close()
        return True
    return False
