"""Ray: whoever is killed in the middle of a call, nothing that finished runs twice and every result is right.

One cluster for the module: a head without CPUs, which only keeps the books, and nodes that come and go.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
import ray_clusters

import tenfold
import waiting

COUNT = 24
NODE = {"num_cpus": 2, "resources": {"node": 1}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_clusters.nodes({"num_cpus": 0}, NODE) as found:
        yield found


def _task(folder: Path, seconds: float = 0.15) -> Callable[[int], int]:
    def work(x: int) -> int:
        import time

        import ray  # noqa: F401

        (folder / f"began {x} {os.getpid()}").touch()
        time.sleep(seconds)
        with open(folder / f"ended {x}", "a") as file:
            file.write(f"{os.getpid()}\n")
        return x * x

    return work


def _ended(folder: Path) -> dict[int, int]:
    """Task -> how often it ran to its end."""
    return {int(path.name.split()[1]): len(path.read_text().splitlines()) for path in folder.glob("ended *")}


def _during(folder: Path, call: Callable[[], Any], act: Callable[[], object], ended: int = 6) -> Any:
    """What `call` returns; `act` is done as soon as some tasks have ended.

    The call has the other thread: Ray's nodes end with the thread that has started them.
    """
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        waiting.until(lambda: len(_ended(folder)) >= ended or answer.done(), 40, "some ended tasks")
        assert not answer.done(), answer.result()
        act()
        return answer.result(60)


def _kill(name: str) -> Callable[[], None]:
    def act() -> None:
        for pid in waiting.until(lambda: ray_clusters.actors(os.getpid(), name), 10, f"a process with {name}"):
            os.kill(pid, signal.SIGKILL)

    return act


def _once_but_for_the_running(folder: Path, at_once: int) -> None:
    """Every task ended; those that were running when something was killed may have ended twice, no others."""
    ended = _ended(folder)
    assert ended.keys() == set(range(COUNT))
    twice = [x for x, count in ended.items() if count > 1]
    assert len(twice) <= at_once, f"ran again: {twice}"
    assert max(ended.values()) <= 2


def test_a_killed_task_is_tried_again_and_nothing_else(cluster: Any, tmp_path: Path) -> None:
    def work(x: int) -> tuple[int, int]:
        path = tmp_path / f"ran {x}"
        first = not path.exists()
        with open(path, "a") as file:
            file.write("ran\n")
        if first and x == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return x, tenfold.here().attempt

    import ray

    results = tenfold.map(work, range(COUNT), engine=ray, retries=1)
    assert [x for x, _ in results] == list(range(COUNT))
    ran = [len((tmp_path / f"ran {x}").read_text().splitlines()) for x in range(COUNT)]
    assert ran == [2 if x == 7 else 1 for x in range(COUNT)]


@pytest.mark.parametrize("name", ["RayForeman", "Keeper"])
def test_a_killed_actor(name: str, cluster: Any, tmp_path: Path) -> None:
    import ray

    results = _during(tmp_path, lambda: tenfold.map(_task(tmp_path), range(COUNT), engine=ray), _kill(name))
    assert results[:] == [x * x for x in range(COUNT)]
    _once_but_for_the_running(tmp_path, at_once=2 if name == "RayForeman" else 0)


def test_a_call_after_a_killed_keeper(cluster: Any) -> None:
    """It is the keeper that is given large functions."""
    import ray

    data = numpy.arange(4_000_000)
    assert tenfold.map(abs, [-1, -2], engine=ray)[:] == [1, 2]
    for pid in ray_clusters.actors(os.getpid(), "Keeper"):
        os.kill(pid, signal.SIGKILL)
    assert tenfold.map(lambda x: int(data[x]), [1, 2], engine=ray)[:] == [1, 2]


@pytest.mark.parametrize("how", ["removed", "killed"])
def test_a_node_that_is_lost(how: str, cluster: Any, tmp_path: Path) -> None:
    import ray

    second = cluster.add_node(**NODE)

    def lose() -> None:
        if how == "removed":
            cluster.remove_node(second)
        else:
            raylet = second.all_processes["raylet"][0].process.pid
            os.kill(raylet, signal.SIGKILL)

    results = _during(tmp_path, lambda: tenfold.map(_task(tmp_path, 0.3), range(COUNT), engine=ray), lose)
    assert results.workers == 4
    assert results[:] == [x * x for x in range(COUNT)]
    _once_but_for_the_running(tmp_path, at_once=2)
    if how == "killed":
        cluster.remove_node(second)


def test_a_node_that_joins_late_gets_work(cluster: Any, tmp_path: Path) -> None:
    import ray

    def work(x: int) -> str:
        import time

        with open(tmp_path / f"ended {x}", "a") as file:
            file.write("ended\n")
        deadline = time.monotonic() + 30
        while not (tmp_path / "late").exists() and time.monotonic() < deadline:
            if len(list(tmp_path.glob("ended *"))) > 2:  # only a third seat can begin a third task
                (tmp_path / "late").touch()
            time.sleep(0.01)
        return "late" if (tmp_path / "late").exists() else "nobody came"

    nodes: list[Any] = []
    try:
        results = _during(
            tmp_path,
            lambda: tenfold.map(work, range(12), engine=ray),
            lambda: nodes.append(cluster.add_node(**NODE)),
            ended=2,
        )
        assert set(results) == {"late"}
        assert all(len(path.read_text().splitlines()) == 1 for path in tmp_path.glob("ended *"))
    finally:
        for node in nodes:
            cluster.remove_node(node)
