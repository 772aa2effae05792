"""The nursery is killed in the middle: the call still completes, and nothing that was finished is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenfold
import waiting
from tenfold import errors, frameworks
from tenfold.nursery import client


@pytest.fixture(autouse=True)
def no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new nursery would import those that other tests have left in this process: 2 s for PyTorch alone."""
    for name in frameworks.every().keys() - {"numpy"}:  # which cannot be imported twice
        monkeypatch.delitem(sys.modules, name, raising=False)


def kill_nursery() -> None:
    process = client.get()._process
    assert process is not None
    process.kill()
    waiting.for_exit(process.pid)


def _gate(folder: Path) -> Any:
    """Tasks 0 to 4 finish; 5 and 6 say so and wait for the gate; everything counts its runs."""

    def pass_gate(x: int) -> int:
        time.sleep(0.02)  # the work: enough that each travels by itself
        if x in (5, 6):
            (folder / f"waiting {x}").write_text(str(os.getpid()))
            waiting.until(lambda: (folder / "open").exists(), 30)
        with open(folder / f"ran {x}", "a") as file:
            file.write("x")
        return x

    return pass_gate


@pytest.mark.parametrize("keep", [False, True], ids=["no run", "run"])
@pytest.mark.parametrize("isolate", [False, True], ids=["reused", "isolated"])
def test_killed_while_tasks_run(keep: bool, isolate: bool, tmp_path: Path) -> None:
    def kill_and_open() -> None:
        tasks = [int(waiting.for_file(tmp_path / f"waiting {x}")) for x in (5, 6)]
        kill_nursery()
        for task in tasks:  # it dies with its worker, which dies with the nursery; before that it could still finish
            waiting.for_exit(task)
        (tmp_path / "open").touch()

    killer = threading.Thread(target=kill_and_open)
    killer.start()
    run = tmp_path / "run" if keep else None
    results = tenfold.map(_gate(tmp_path), range(12), workers=2, isolate=isolate, run=run)
    killer.join()
    assert results[:] == list(range(12))
    runs = {x: len((tmp_path / f"ran {x}").read_text()) for x in range(12)}
    assert runs == dict.fromkeys(range(12), 1)
    assert [outcome.attempts for outcome in results.outcomes if outcome.index in (5, 6)] == [2, 2]


def test_killed_between_two_calls() -> None:
    tenfold.map(abs, [1])
    kill_nursery()
    assert tenfold.map(abs, [-1, -2])[:] == [1, 2]


def test_killed_between_two_batches() -> None:
    """The items kill it: so it dies when one worker has been started and the next has not."""

    def items() -> Iterator[int]:
        yield 0
        kill_nursery()
        yield from range(1, 6)

    assert tenfold.map(lambda x: x, items(), workers=2)[:] == list(range(6))


@pytest.mark.parametrize("turn", range(5))  # who notices first is chance
def test_killed_under_two_calls_at_once(turn: int, tmp_path: Path) -> None:
    found: dict[str, list[int]] = {}

    def call(name: str) -> None:
        (tmp_path / name).mkdir()
        found[name] = tenfold.map(_gate(tmp_path / name), range(10), workers=2)[:]

    callers = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
    for caller in callers:
        caller.start()
    waiting.until(lambda: len(list(tmp_path.glob("*/waiting *"))) == 4)
    kill_nursery()
    for name in ("a", "b"):
        (tmp_path / name / "open").touch()
    for caller in callers:
        caller.join(30)
    assert found == {"a": list(range(10)), "b": list(range(10))}


def test_killed_while_nested_calls_run(tmp_path: Path) -> None:
    def outer(x: int) -> list[int]:
        def inner(y: int) -> int:
            (tmp_path / f"{x} {y}").touch()
            waiting.until(lambda: (tmp_path / "open").exists(), 30)
            return 10 * x + y

        return tenfold.map(inner, range(2))[:]

    def kill_and_open() -> None:
        waiting.until(lambda: len(list(tmp_path.iterdir())) >= 2)
        kill_nursery()
        (tmp_path / "open").touch()

    killer = threading.Thread(target=kill_and_open)
    killer.start()
    results = tenfold.map(outer, range(2), workers=2)
    killer.join()
    assert results[:] == [[0, 1], [10, 11]]


def test_what_its_workers_had_started_goes_too(tmp_path: Path) -> None:
    def start(x: int) -> int:
        import subprocess

        if tenfold.here().attempt == 1:
            child = subprocess.Popen(["sleep", "60"])
            (tmp_path / "child").write_text(str(child.pid))
            waiting.until(lambda: (tmp_path / "open").exists(), 30)
        return x

    def kill_and_open() -> None:
        waiting.for_file(tmp_path / "child")
        kill_nursery()
        (tmp_path / "open").touch()

    killer = threading.Thread(target=kill_and_open)
    killer.start()
    assert tenfold.map(start, [0])[:] == [0]
    killer.join()
    child = int((tmp_path / "child").read_text())
    try:
        waiting.for_exit(child, 3)
    finally:
        if waiting.lives(child):
            os.kill(child, signal.SIGKILL)


def test_a_task_that_always_kills_it_fails_in_the_end() -> None:
    def kill_parent(x: int) -> int:
        if x == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            waiting.until(lambda: False, 30)
        return x

    with contextlib.suppress(errors.WorkersUnavailable):  # also an answer: it died too often
        results = tenfold.map(kill_parent, range(3), workers=1, on_error="collect")
        assert isinstance(results[1], errors.TaskDied)
        assert [results[0], results[2]] == [0, 2]
    assert tenfold.map(abs, [-3])[:] == [3]
