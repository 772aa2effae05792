"""The small process that speaks for a worker on another machine: it tells a busy worker from one that is stopped."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import waiting
from tenfold.training.signs import KILL
from tenfold.training.wires import Gate

_WORKER = """
import ctypes, pathlib, pickle, sys
from tenfold.training.pulse import Pulse

folder, act = pathlib.Path(sys.argv[1]), sys.argv[2]
pulse = Pulse(pickle.loads(bytes.fromhex(sys.argv[3])))
(folder / "begun").write_text("now")
if act == "busy":
    ctypes.PyDLL(None).sleep(60)  # which keeps Python's lock
elif act == "wait":
    sys.stdin.read()
pulse.close()
"""


@contextlib.contextmanager
def worker(folder: Path, act: str) -> Iterator[tuple[subprocess.Popen[bytes], Connection]]:
    """A process that thinks that it is on another machine, and the wire of its pulse, which has said whose it is."""
    with contextlib.closing(Gate(1, everywhere=True)) as gate:
        ticket = pickle.dumps(replace(gate.ticket, host="another")).hex()
        words = [sys.executable, "-c", _WORKER, str(folder), act, ticket]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
            found = gate.admit()
            assert found is not None
            with found[0] as wire:
                message = wire.recv()
                assert (message.kind, message.value[1]) == ("pulse", process.pid)
                waiting.for_file(folder / "begun")
                yield process, wire


def ends(wire: Connection) -> bool:
    """Whether there is no more after what was sent."""
    with contextlib.suppress(EOFError, ConnectionResetError):
        while wire.poll(10):
            wire.recv()
        return False
    return True


def test_a_busy_worker_lives(tmp_path: Path) -> None:
    with worker(tmp_path, "busy") as (process, wire):
        assert [wire.recv().kind for _ in range(4)] == ["beat"] * 4
        wire.send_bytes(KILL)
        assert process.wait(10) == -signal.SIGKILL
        assert ends(wire)


def test_a_stopped_one_does_not_and_can_be_ended(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as (process, wire):
        assert wire.recv().kind == "beat"
        os.kill(process.pid, signal.SIGSTOP)
        while wire.poll(1.5):  # what was on its way
            wire.recv()
        assert process.poll() is None
        wire.send_bytes(KILL)
        assert process.wait(10) == -signal.SIGKILL
        assert ends(wire)


@pytest.mark.parametrize("how", ["end", "kill"])
def test_it_ends_with_its_worker(how: str, tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as (process, wire):
        process.kill() if how == "kill" else process.communicate()
        assert process.wait(10) == (-signal.SIGKILL if how == "kill" else 0)
        assert ends(wire)


def test_a_worker_outlives_a_caller_that_only_goes(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as (process, wire):
        wire.close()
        waiting.until(lambda: not children(process.pid), 10, "the end of the small process")
        process.communicate()
        assert process.returncode == 0


def children(pid: int) -> list[int]:
    """Those that live."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if waiting.lives(int(child))]
