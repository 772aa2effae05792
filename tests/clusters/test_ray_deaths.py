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
from dask_clusters import committed, trace, traces

import tenfold
import waiting
from tenfold import errors
from tenfold.dispatch.results import Results

COUNT = 24
NODE = {"num_cpus": 2, "resources": {"node": 1}}


@pytest.fixture(scope="module")
def bare() -> Iterator[Any]:
    with ray_clusters.nodes({"num_cpus": 0}) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(bare: Any) -> Any:
    bare.add_node(**NODE)
    bare.wait_for_nodes()
    return bare


def test_a_cluster_without_cpus(bare: Any) -> None:
    """Comes first: the other tests add nodes."""
    import ray

    with pytest.raises(errors.DoesNotFit, match="needs cpus=1, and 0 may be used here on"):
        tenfold.map(abs, [1], engine=ray)


def _task(folder: Path, seconds: float = 0.15) -> Callable[[int], int]:
    def work(x: int) -> int:
        import time

        import ray  # noqa: F401

        trace(folder, x, "began")
        time.sleep(seconds)
        trace(folder, x)
        return x * x

    return work


def _during(call: Callable[[], Any], ready: Callable[[], bool], act: Callable[[], object]) -> Any:
    """What `call` returns; `act` is done as soon as it is `ready` for that.

    The call has the other thread: Ray's nodes end with the thread that has started them.
    """
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        waiting.until(lambda: ready() or answer.done(), 40, "the moment")
        assert not answer.done(), answer.result()
        act()
        return answer.result(60)


def _lose(folder: Path, act: Callable[[], object], seconds: float = 0.15) -> tuple[Results, dict[int, list[int]]]:
    """A call in whose middle `act` takes somebody away: its results, and the processes in which each task began.

    What was committed before that must not have begun again; and nothing may have begun a third time.
    """
    import ray

    run, finished = folder / "run", set[int]()

    def look_and_act() -> None:
        finished.update(committed(run))
        act()

    task = _task(folder, seconds)
    results: Results = _during(
        lambda: tenfold.map(task, range(COUNT), engine=ray, run=run, progress=False),
        lambda: len(committed(run)) >= 6,
        look_and_act,
    )
    assert results[:] == [x * x for x in range(COUNT)]
    began = traces(folder, "began")
    assert began.keys() == set(range(COUNT))
    assert len(finished) < COUNT
    assert all(len(began[x]) == 1 for x in finished), "a finished task ran again"
    assert max(map(len, began.values())) <= 2
    return results, began


def _kill(name: str) -> Callable[[], None]:
    def act() -> None:
        for pid in waiting.until(lambda: ray_clusters.actors(os.getpid(), name), 10, f"a process with {name}"):
            os.kill(pid, signal.SIGKILL)

    return act


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
    _, began = _lose(tmp_path, _kill(name))
    if name == "Keeper":
        assert set(map(len, began.values())) == {1}  # no task knows of it


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
    second = cluster.add_node(**NODE)

    def lose() -> None:
        if how == "removed":
            cluster.remove_node(second)
        else:
            raylet = second.all_processes["raylet"][0].process.pid
            os.kill(raylet, signal.SIGKILL)

    results, _ = _lose(tmp_path, lose, 0.3)
    assert results.workers == 4
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
            lambda: tenfold.map(work, range(12), engine=ray),
            lambda: len(list(tmp_path.glob("ended *"))) >= 2,
            lambda: nodes.append(cluster.add_node(**NODE)),
        )
        assert set(results) == {"late"}
        assert all(len(path.read_text().splitlines()) == 1 for path in tmp_path.glob("ended *"))
    finally:
        for node in nodes:
            cluster.remove_node(node)
