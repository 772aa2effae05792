"""One task after the other: values, failures, alarms, and frameworks that arrive in the middle."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import scripts
from tenfold.plan.seats import Seat
from tenfold.work import seeds
from tenfold.work.run import Job, Runner


def run(function: Any, item: Any = None, timeout: float | None = None, *, whole_process: bool = False) -> Any:
    job = Job(0, "", True, (), timeout=timeout)
    with seeds.restored(), Runner(function, job, Seat(0, 1, ()), None, whole_process=whole_process) as runner:
        return runner.run(0, 1, item)


def test_a_value() -> None:
    ok, value, seconds = run(lambda x: x * 2, 21)
    assert (ok, value) == (True, 42)
    assert 0 <= seconds < 1


def fail(x: object) -> None:
    raise ValueError(f"bad item {x}")


def test_an_exception() -> None:
    ok, failure, _ = run(fail, 3)
    assert not ok
    assert (failure.kind, failure.summary) == ("raised", "ValueError: bad item 3")
    assert "in fail" in failure.traceback
    assert "tenfold/work/run.py" not in failure.traceback  # our own frames explain nothing


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), KeyboardInterrupt()])
def test_what_else_a_task_may_raise(error: BaseException) -> None:
    def task(x: object) -> None:
        raise error

    ok, failure, _ = run(task, whole_process=True)
    assert not ok
    assert type(error).__name__ in failure.summary


def test_ctrl_c_in_the_process_of_the_caller_is_for_the_caller() -> None:
    def task(x: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(task)


def test_the_cause_is_in_the_traceback() -> None:
    def task(x: object) -> None:
        try:
            fail(x)
        except ValueError as error:
            raise RuntimeError("outer") from error

    failure = run(task, 5)[1]
    assert failure.summary == "RuntimeError: outer"
    assert "bad item 5" in failure.traceback


# -- alarms -----------------------------------------------------------------------------------------------------------


def forever(x: object) -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def test_an_alarm_stops_a_task_that_catches_everything() -> None:
    before = signal.getsignal(signal.SIGALRM)
    ok, failure, seconds = run(forever, timeout=0.05)
    assert not ok
    assert failure.kind == "timeout"
    assert "timeout=0.05 s" in failure.summary
    assert 0.04 < seconds < 5
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_task_that_is_quick_enough_hears_no_alarm() -> None:
    assert run(lambda x: x, 1, timeout=60)[:2] == (True, 1)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_no_alarm_in_another_thread() -> None:
    """Python hands signals to the main thread alone; the engine says so, and the task simply runs."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run(lambda x: x, 1, timeout=60)))
    thread.start()
    thread.join()
    assert found[0][:2] == (True, 1)


# -- frameworks -------------------------------------------------------------------------------------------------------


def test_nobody_watches_imports_afterwards() -> None:
    before = list(sys.meta_path)
    run(lambda x: x)
    assert sys.meta_path == before


@pytest.mark.parametrize("item", ["imports", "asks first"])
def test_a_framework_that_a_task_imports_is_settled_and_seeded(tmp_path: Path, item: str) -> None:
    """As if it had been there before; also where the task first asks whether it is installed."""
    ended = scripts.run(
        tmp_path,
        """
        import importlib.util
        from tenfold.plan.seats import Seat
        from tenfold.work.run import Job, Runner

        def task(item):
            if item == "asks first":
                assert importlib.util.find_spec("torch") is not None
            import torch
            return torch.rand(1).item(), torch.get_num_threads()

        import os, sys
        item = os.environ["ITEM"]
        with Runner(task, Job(5, "", True, ()), Seat(0, 1, ()), None, whole_process=True) as runner:
            assert "torch" not in sys.modules
            first = runner.run(2, 1, item)
            again = runner.run(2, 1, item)
        print(first[0], first[1] == again[1], first[1][1])
        """,
        {"TENFOLD_NOTICE": "0", "ITEM": item},
    )
    assert ended.out.split() == ["True", "True", "1"]
