"""GPU leases of the local engine, on GPUs that are pretended: no device is ever held beyond its whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tenfold
from tenfold import errors
from tenfold.nursery import leases


@pytest.fixture(autouse=True)
def _four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "4")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@dataclass(frozen=True)
class Held:
    """What one task held, and when."""

    began: float
    ended: float
    visible: str
    device: str
    gpus: tuple[str, ...]
    pid: int


def hold(seconds: float) -> Held:
    import os

    here = tenfold.here()
    began = time.monotonic()
    time.sleep(seconds)  # the work on the device
    return Held(began, time.monotonic(), os.environ["CUDA_VISIBLE_DEVICES"], here.device, here.gpus, os.getpid())


def most_held_at_once(held: list[tuple[Held, float]]) -> dict[str, float]:
    """Device -> the largest sum of shares that was held at any moment. `held` has each task's share of its devices."""
    moments = sorted({task.began for task, _ in held})
    found: dict[str, float] = {}
    for moment in moments:
        for device in {gpu for task, _ in held for gpu in task.gpus}:
            now = sum(share for task, share in held if device in task.gpus and task.began <= moment < task.ended)
            found[device] = max(found.get(device, 0.0), now)
    return found


@pytest.mark.parametrize(
    ("gpus", "tasks", "workers", "expected_devices"), [(1, 10, 4, 4), (0.5, 12, 8, 4), (2, 5, 2, 4), (0.25, 20, 16, 4)]
)
def test_no_device_is_held_beyond_its_whole(gpus: float, tasks: int, workers: int, expected_devices: int) -> None:
    results = tenfold.map(hold, [0.05] * tasks, gpus=gpus, cpus=0.1)
    share = min(1.0, gpus)
    most = most_held_at_once([(held, share) for held in results])
    assert len(most) == expected_devices
    assert max(most.values()) <= 1 + 1e-9
    assert results.workers == workers
    for held in results:
        assert held.visible == ",".join(held.gpus)
        assert len(held.gpus) == max(1, int(gpus))
        assert held.device == "cuda:0"
    assert len({held.pid for held in results}) == tasks, "GPU memory is given back only when a process ends"


@pytest.mark.parametrize(("first", "second"), [(1, 1), (0.5, 1), (0.25, 0.5), (2, 1), (2, 0.5)])
def test_two_threads_at_once_share_the_devices(first: float, second: float) -> None:
    found: list[tuple[Held, float]] = []

    def call(gpus: float) -> None:
        results = tenfold.map(hold, [0.06] * 8, gpus=gpus, cpus=0.1)
        found.extend((held, min(1.0, gpus)) for held in results)

    _at_once([lambda: call(first), lambda: call(second)])
    assert len(found) == 16
    assert max(most_held_at_once(found).values()) <= 1 + 1e-9


def _at_once(calls: list[Callable[[], Any]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_waiting_for_a_lease_costs_no_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "1")
    spent: list[float] = []
    holding = threading.Event()

    def first() -> None:
        def items() -> Any:
            yield 1.5
            holding.set()  # the next item is asked for when the first one is on its way

        tenfold.map(hold, items(), gpus=1)

    def second() -> None:
        assert holding.wait(10)
        began = time.thread_time()
        tenfold.map(hold, [0.0], gpus=1)
        spent.append(time.thread_time() - began)

    _at_once([first, second])
    assert spent[0] < 0.5


def test_leases_end_with_their_task_however_it_ends() -> None:
    def die(how: str) -> None:
        import os
        import time

        if how == "raise":
            raise ValueError(how)
        if how == "exit":
            os._exit(3)
        while how == "endless":
            time.sleep(0.01)

    results = tenfold.map(die, ["raise", "exit", "endless", "return"] * 2, gpus=1, timeout=0.5, on_error="collect")
    assert [type(value).__name__ for value in results[:4]] == ["TaskRaised", "TaskDied", "TaskTimedOut", "NoneType"]
    assert not any(leases._held.values())


def test_leases_end_when_the_call_is_stopped() -> None:
    def fail_or_wait(x: int) -> None:
        import time

        if x == 0:
            raise ValueError("stop")
        time.sleep(60)

    with pytest.raises(errors.TasksFailed):
        tenfold.map(fail_or_wait, range(8), gpus=1, cpus=0.1, on_error="stop")
    assert not any(leases._held.values())


def test_tasks_without_gpus_see_none() -> None:
    results = tenfold.map(hold, [0.0, 0.0])
    assert {(held.visible, held.device, held.gpus) for held in results} == {("-1", "cpu", ())}


def test_only_visible_devices_are_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    results = tenfold.map(hold, [0.03] * 6, gpus=1, cpus=0.1)
    assert {held.visible for held in results} == {"3", "1"}
    assert results.workers == 2


def test_more_gpus_than_there_are_is_refused() -> None:
    with pytest.raises(errors.DoesNotFit, match="gpus=5, and 4 are visible"):
        tenfold.map(hold, [0.0], gpus=5)


def test_a_nested_call_leases_from_what_its_task_holds() -> None:
    def outer(x: int) -> list[Held]:
        return tenfold.map(hold, [0.02] * 4, gpus=0.5, cpus=0.1)[:]

    for inner in tenfold.map(outer, range(4), gpus=1, cpus=0.5):
        assert len({held.gpus for held in inner}) == 1
        assert max(most_held_at_once([(held, 0.5) for held in inner]).values()) <= 1 + 1e-9


def test_shares_are_told_to_frameworks_before_they_start() -> None:
    def look(x: int) -> tuple[str | None, ...]:
        import os

        names = ("TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_MEM_FRACTION", "PYTORCH_CUDA_ALLOC_CONF")
        return tuple(os.environ.get(name) for name in names)

    assert tenfold.map(look, [0], gpus=0.5)[:] == [("true", "0.375", "per_process_memory_fraction:0.500")]
    assert tenfold.map(look, [0], gpus=1)[:] == [(None, None, None)]
