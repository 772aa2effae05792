"""Tasks that take their process with them, or would never give it back. The others lose nothing."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenfold
import waiting
from tenfold import errors


def _exit(x: int) -> None:
    os._exit(3)


def _segfault(x: int) -> None:
    import ctypes

    ctypes.string_at(0)


def _abort(x: int) -> None:
    os.abort()


def _terminate(x: int) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@pytest.mark.parametrize(
    ("die", "text"),
    [(_exit, "status 3"), (_segfault, "SIGSEGV"), (_abort, "SIGABRT"), (_terminate, "SIGTERM")],
    ids=["os._exit", "segmentation fault", "abort", "SIGTERM"],
)
@pytest.mark.parametrize("options", [{}, {"isolate": True}, {"workers": 1}], ids=["reused", "isolated", "one worker"])
def test_a_death_is_one_tasks_failure(die: Any, text: str, options: dict[str, Any]) -> None:
    def die_at_three(x: int) -> int:
        if x == 3:
            die(x)
        return x

    results = tenfold.map(die_at_three, range(8), on_error="collect", **options)
    assert [results[x] for x in range(8) if x != 3] == [0, 1, 2, 4, 5, 6, 7]
    error = results[3]
    assert isinstance(error, errors.TaskDied)
    assert error.attempts == 1
    for part in (text, "task 3 failed", "item: 3", "seat "):
        assert part in str(error)


def test_a_segmentation_fault_leaves_the_python_traceback() -> None:
    error = tenfold.map(_segfault, [0], on_error="collect")[0]
    assert "Segmentation fault" in str(error)
    assert "in _segfault" in str(error)
    assert Path(__file__).name in str(error)
    assert "Extension modules" not in str(error)


def test_the_last_words_of_a_process_are_in_the_error() -> None:
    def speak_and_die(x: int) -> None:
        print("the GPU is on fire", flush=True)
        os._exit(1)

    error = tenfold.map(speak_and_die, [0], on_error="collect")[0]
    assert "the GPU is on fire" in str(error)


def test_a_death_in_a_batch_of_quick_tasks_runs_no_other_twice(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.close(log)

    def quick(x: int) -> int:
        with open(tmp_path / "log", "a") as file:
            file.write(f"{x}\n")
        if x % 500 == 250:
            os._exit(1)
        return x

    results = tenfold.map(quick, range(2000), on_error="collect")
    dead = [250, 750, 1250, 1750]
    assert [error.index for error in results.failures] == dead
    assert [value for value in results if isinstance(value, int)] == [x for x in range(2000) if x not in dead]
    runs = [int(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(runs) == list(range(2000))


def test_thirty_deaths_are_thirty_failures() -> None:
    results = tenfold.map(_exit, range(30), on_error="collect")
    assert [type(value) for value in results] == [errors.TaskDied] * 30


def test_a_task_that_was_killed_from_outside_goes_again_for_nothing(tmp_path: Path) -> None:
    def be_killed_at_first(x: int) -> tuple[int, int]:
        attempt = tenfold.here().attempt
        if x == 1 and attempt == 1:
            (tmp_path / "pid").write_text(str(os.getpid()))
            waiting.until(lambda: False, 30)
        return x, attempt

    def kill() -> None:
        os.kill(int(waiting.for_file(tmp_path / "pid")), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    results = tenfold.map(be_killed_at_first, range(4), workers=2)
    killer.join()
    assert results[:] == [(0, 1), (1, 2), (2, 1), (3, 1)]
    assert [outcome.attempts for outcome in results.outcomes] == [1, 2, 1, 1]


@pytest.mark.parametrize("retries", [0, 1])
def test_a_task_that_is_always_killed_fails_after_the_second_time(retries: int, tmp_path: Path) -> None:
    def kill_myself(x: int) -> int:
        if x == 1:
            with open(tmp_path / "runs", "a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    results = tenfold.map(kill_myself, range(4), on_error="collect", retries=retries)
    assert isinstance(results[1], errors.TaskDied)
    assert "SIGKILL" in str(results[1])
    assert "memory" in str(results[1])
    assert (tmp_path / "runs").read_text() == "x" * (2 + retries)
    assert [results[x] for x in (0, 2, 3)] == [0, 2, 3]


def _hoard(megabytes: int) -> int:
    kept = b"x" * (megabytes * 1_000_000)
    if megabytes > 100:
        waiting.until(lambda: False, 10)  # long enough to be seen
    return len(kept)


def test_a_task_over_its_memory_is_stopped() -> None:
    results = tenfold.map(_hoard, [10, 400, 20], memory="150MB", on_error="collect")
    assert results[0] == 10_000_000
    assert results[2] == 20_000_000
    error = results[1]
    assert isinstance(error, errors.TaskOutOfMemory)
    assert isinstance(error, MemoryError)
    assert "memory=150.0 MB" in str(error)


def test_memory_that_others_left_in_a_worker_is_not_counted_against_a_task() -> None:
    kept: list[bytes] = []

    def leave_behind(x: int) -> int:
        kept.append(b"x" * 60_000_000)
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            pass
        return x

    assert tenfold.map(leave_behind, range(6), memory="150MB", workers=1)[:] == list(range(6))


@pytest.mark.parametrize("what", ["regex", "power", "sleep in C"])
def test_an_endless_call_in_c_that_holds_the_gil_is_stopped(what: str) -> None:
    def never_ends(x: int) -> int:
        if x == 1 and what == "regex":
            re.match(r"(a+)+$", "a" * 60 + "b")
        if x == 1 and what == "power":
            9**9**9
        if x == 1 and what == "sleep in C":
            import ctypes

            ctypes.PyDLL(None).sleep(60)  # PyDLL keeps the GIL
        return x

    began = time.monotonic()
    results = tenfold.map(never_ends, range(4), timeout=0.5, on_error="collect")
    assert time.monotonic() - began < 10
    assert isinstance(results[1], errors.TaskTimedOut)
    assert [results[x] for x in (0, 2, 3)] == [0, 2, 3]


# -- what a task started ----------------------------------------------------------------------------------------------


def _start_child(folder: Path, then: str) -> Any:
    def start(x: int) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "300"])
        (folder / "child").write_text(str(child.pid))
        if then == "wait":
            child.wait()
        if then == "die":
            os._exit(1)
        if then == "raise":
            raise ValueError

    return start


@pytest.mark.parametrize("then", ["wait", "die", "raise", "return"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_that_a_task_started_go_with_it(
    then: str, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_START", start)
    timeout = 1.0 if then == "wait" else None
    tenfold.map(_start_child(tmp_path, then), [0], timeout=timeout, on_error="collect")
    waiting.for_exit(int((tmp_path / "child").read_text()), 3)


def test_a_process_in_a_session_of_its_own_goes_too(tmp_path: Path) -> None:
    def start(x: int) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "30"], start_new_session=True)
        (tmp_path / "child").write_text(str(child.pid))

    tenfold.map(start, [0])
    pid = int((tmp_path / "child").read_text())
    try:
        waiting.for_exit(pid, 3)
    finally:
        if waiting.lives(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("own_session", [False, True])
def test_with_a_process_of_its_own_they_go_before_the_next_task(tmp_path: Path, own_session: bool) -> None:
    def start(x: int) -> list[int]:
        import subprocess

        child = subprocess.Popen(["sleep", "300"], start_new_session=own_session)
        before = [int(path.name) for path in tmp_path.iterdir()]
        (tmp_path / str(child.pid)).touch()
        return [pid for pid in before if waiting.lives(pid)]

    assert tenfold.map(start, range(4), isolate=True, workers=1)[:] == [[], [], [], []]
    for path in tmp_path.iterdir():
        waiting.for_exit(int(path.name), 3)


def test_a_death_in_a_process_of_its_own_is_one_tasks_alone() -> None:
    """Tasks are forked from a worker that stays: what one of them does must not be seen by the next."""
    seen: list[int] = []

    def leave_a_mark(x: int) -> int:
        seen.append(x)
        if x in (3, 8):
            os.kill(os.getpid(), signal.SIGSEGV)
        if x == 5:
            os._exit(0)
        return len(seen)

    results = tenfold.map(leave_a_mark, range(12), isolate=True, workers=2, on_error="collect")
    assert [index for index, value in enumerate(results) if isinstance(value, errors.TaskDied)] == [3, 5, 8]
    assert [value for value in results if not isinstance(value, Exception)] == [1] * 9
    assert "SIGSEGV" in str(results[3])
    assert str(results[3]).count("Fatal Python error") <= 1


# -- what cannot be loaded --------------------------------------------------------------------------------------------


class Bomb:
    """Does something when it is unpickled in another process."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        return _explode, (self.what, os.getpid())


def _explode(what: str, pid: int) -> Any:
    if os.getpid() == pid:
        return Bomb(what)
    if what == "die":
        os._exit(5)
    raise ArithmeticError("it cannot be opened here")


@pytest.mark.parametrize("what", ["raise", "die"])
def test_an_item_that_cannot_be_opened_in_a_worker_fails_alone(what: str) -> None:
    items = [*range(20), Bomb(what), *range(20, 40)]
    results = tenfold.map(lambda x: x, items, on_error="collect")
    assert results[:20] + results[21:] == list(range(40))
    assert isinstance(results[20], errors.TaskUnsendable if what == "raise" else errors.TaskDied)


@pytest.mark.parametrize("what", ["raise", "die"])
def test_a_function_that_cannot_be_opened_in_a_worker_ends_the_call(what: str) -> None:
    bomb = Bomb(what)
    began = time.monotonic()
    with pytest.raises(errors.WorkersUnavailable) as caught:
        tenfold.map(lambda x: bomb, range(5))
    assert time.monotonic() - began < 10
    assert "cannot be opened here" in str(caught.value) or "status 5" in str(caught.value)


def test_a_result_that_cannot_be_opened_here_takes_no_other_with_it() -> None:
    def make(x: int) -> Any:
        return Bomb("raise") if x == 1 else x

    results = tenfold.map(make, range(3), on_error="collect")
    assert results[0] == 0
    assert results[2] == 2
    with pytest.raises(Exception, match="cannot be opened here"):
        results[1]


def test_a_worker_that_dies_after_its_task_costs_at_most_one_other() -> None:
    def leave_a_thread(x: int) -> int:
        if x == 0:
            threading.Timer(0.05, os._exit, (1,)).start()
        time.sleep(0.002)  # the work
        return x

    results = tenfold.map(leave_a_thread, range(100), workers=1, on_error="collect")
    assert len(results.failures) <= 1
    assert results[0] == 0


def test_items_that_come_slowly_keep_nobody_from_being_stopped() -> None:
    def items() -> Iterator[int]:
        yield from range(3)

    results = tenfold.map(lambda x: waiting.until(lambda: x != 1, 30), items(), timeout=0.3, on_error="collect")
    assert isinstance(results[1], errors.TaskTimedOut)
