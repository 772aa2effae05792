"""Processes of a Dask cluster are killed in the middle: what is finished stays, the rest is run, nothing hangs."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask_clusters
import pytest
from dask_clusters import Cluster, committed, trace, traces

import scripts
import tenfold
import waiting
from tenfold import errors

COUNT = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with dask_clusters.running(threads=[2]) as found:
        yield found


def _meanwhile(do: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    return thread


def _slow(folder: Path, seconds: float = 0.05) -> Callable[[int], int]:
    def work(x: int) -> int:
        trace(folder, x, "began")
        time.sleep(seconds)  # the work
        trace(folder, x)
        return x * x

    return work


def _squares() -> list[int]:
    return [x * x for x in range(COUNT)]


# -- a task's process -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 99], ids=["once", "always"])
@pytest.mark.parametrize("retries", [0, 2])
def test_a_killed_task_fares_as_it_does_locally(cluster: Cluster, tmp_path: Path, times: int, retries: int) -> None:
    def told(engine: str) -> list[tuple[Any, ...]]:
        folder = tmp_path / engine.partition(":")[0]
        folder.mkdir()

        def work(x: int) -> int:
            trace(folder, x)
            if x == 3 and len(traces(folder)[x]) <= times:
                os.kill(os.getpid(), signal.SIGKILL)
            return x * x

        results = tenfold.map(work, range(8), engine=engine, retries=retries, on_error="collect")
        assert {x: len(pids) for x, pids in traces(folder).items() if x != 3} == dict.fromkeys({*range(8)} - {3}, 1)
        return [
            (outcome.ok, outcome.value, outcome.attempts, outcome.failure and outcome.failure.summary, type(error))
            for outcome, error in ((outcome, outcome.error) for outcome in results.outcomes)
        ]

    there, here = told(cluster.address), told("local")
    assert [_without_pid(line) for line in there] == [_without_pid(line) for line in here]


def _without_pid(line: tuple[Any, ...]) -> tuple[Any, ...]:
    """Nor what was seen of its memory: a process may be gone before anybody has looked."""
    told = r"; it had used up to \S+ \wB|\d{3,}(\.\d+)?|\d+\.\d+"
    return tuple(re.sub(told, "", part) if isinstance(part, str) else part for part in line)


# -- a whole worker ---------------------------------------------------------------------------------------------------


def test_a_killed_worker_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    second = cluster.worker()
    run = tmp_path / "run"
    finished: set[int] = set()

    def kill() -> None:
        waiting.until(lambda: len(committed(run)) >= 10)
        finished.update(committed(run))
        second.kill()

    killer = _meanwhile(kill)
    results = tenfold.map(_slow(tmp_path, 0.1), range(COUNT), engine=cluster.address, run=run, progress=False)
    killer.join()
    assert list(results) == _squares()
    ran = traces(tmp_path)
    assert len(finished) < COUNT
    assert all(len(ran[x]) == 1 for x in finished), "a finished task ran again"
    assert sum(map(len, ran.values())) <= COUNT + 2, "more than the lost worker's tasks ran again"
    assert all(outcome.attempts <= 2 for outcome in results.outcomes)
    begun = {pid for pids in traces(tmp_path, "began").values() for pid in pids}
    assert len(begun) >= 3, "the second worker had no task"
    waiting.until(lambda: not any(map(waiting.lives, begun)), 5, "the end of the tasks' processes")


def test_a_worker_that_a_nanny_starts_again_is_used(tmp_path: Path) -> None:
    """The only worker dies: the call waits for the next one."""
    run = tmp_path / "run"
    with dask_clusters.running() as cluster:
        nanny = cluster.worker("--nanny")
        finished: set[int] = set()

        def kill() -> None:
            waiting.until(lambda: len(committed(run)) >= 5)
            finished.update(committed(run))
            (worker,) = (pid for pid in scripts.descendants(nanny.pid) if _is_dask_worker(pid))
            os.kill(worker, signal.SIGKILL)

        killer = _meanwhile(kill)
        results = tenfold.map(_slow(tmp_path), range(COUNT), engine=cluster.address, run=run, progress=False)
        killer.join()
        assert list(results) == _squares()
        assert all(len(traces(tmp_path)[x]) == 1 for x in finished)


def _is_dask_worker(pid: int) -> bool:
    return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_worker_that_joins_late_is_given_work(tmp_path: Path) -> None:
    with dask_clusters.running(threads=[1]) as cluster:
        starter = _meanwhile(lambda: waiting.until(lambda: len(traces(tmp_path)) >= 2) and cluster.worker())

        def work(x: int) -> int:
            trace(tmp_path, x)
            waiting.until(lambda: len({pid for pids in traces(tmp_path).values() for pid in pids}) >= 2 or x < 4, 20)
            time.sleep(0.1)  # the work
            return x * x

        results = tenfold.map(work, range(COUNT), engine=cluster.address, progress=False)
        starter.join()
        assert list(results) == _squares()
        by_worker: dict[str, int] = {}
        for outcome in results.outcomes:
            by_worker[outcome.worker] = by_worker.get(outcome.worker, 0) + 1
        assert len(by_worker) == 2
        assert min(by_worker.values()) >= 5, f"the work was not shared: {by_worker}"


def test_workers_that_become_ready_at_different_times_share_long_tasks(tmp_path: Path) -> None:
    """As many long tasks as seats: none of them waits behind another one."""
    with dask_clusters.running(threads=[1, 1]) as cluster:

        def work(x: int) -> int:
            trace(tmp_path, x)
            waiting.until(lambda: len(traces(tmp_path)) == 2, 10, "the other task")
            return os.getpid()

        assert len(set(tenfold.map(work, range(2), engine=cluster.address, progress=False))) == 2


# -- the scheduler ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["local", "dask"])
def test_a_killed_scheduler_is_told_of_and_nothing_is_lost(then: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed = 0.0
    with dask_clusters.running(threads=[1]) as cluster:

        def kill() -> None:
            nonlocal killed
            waiting.until(lambda: len(committed(run)) >= 5)
            cluster.scheduler.kill()
            killed = time.monotonic()

        killer = _meanwhile(kill)
        with pytest.raises(errors.ClusterLost, match=re.escape(cluster.address)):
            tenfold.map(_slow(tmp_path), range(COUNT), engine=cluster.address, run=run, progress=False)
        seconds = time.monotonic() - killed
        killer.join()
        assert seconds < 10
    finished = committed(run)
    assert 5 <= len(finished) < COUNT
    before = traces(tmp_path)
    if then == "local":
        results = tenfold.map(_slow(tmp_path), range(COUNT), run=run, progress=False)
    else:
        with dask_clusters.running(threads=[2]) as other:
            results = tenfold.map(_slow(tmp_path), range(COUNT), engine=other.address, run=run, progress=False)
    assert list(results) == _squares()
    after = traces(tmp_path)
    assert {x: after[x] for x in finished} == {x: before[x] for x in finished}, "a finished task ran again"


# -- the caller -------------------------------------------------------------------------------------------------------

_SCRIPT = """
    import json, os, pathlib, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def work(x):
        with open(folder / f"began {{x}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep(0.05 if x < 30 or (folder / "killed").exists() else 600)  # the work
        with open(folder / f"ended {{x}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        return x * x

    print(json.dumps(list(tenfold.map(work, range({count}), run="run", engine={engine!r}))))
"""


def test_a_killed_callers_tasks_end_and_its_call_continues(tmp_path: Path) -> None:
    with dask_clusters.running(threads=[2]) as cluster:
        text = _SCRIPT.format(folder=str(tmp_path), count=COUNT, engine=cluster.address)
        with scripts.started(tmp_path, text) as script:
            waiting.until(lambda: len(committed(tmp_path / "run")) >= 30 or script.process.poll() is not None)
            waiting.until(lambda: any(x >= 30 for x in traces(tmp_path, "began")))
            assert script.process.poll() is None, script.err
            script.kill()
        finished, before = committed(tmp_path / "run"), traces(tmp_path)
        endless = {pid for x, pids in traces(tmp_path, "began").items() for pid in pids if x >= 30}
        (tmp_path / "killed").touch()
        ended = scripts.run(tmp_path, text)
        assert ended.out.strip() == str(_squares())
        after = traces(tmp_path)
        assert {x: after[x] for x in finished} == {x: before[x] for x in finished}, "a finished task ran again"
        waiting.until(lambda: not any(map(waiting.lives, endless)), 8, "the end of the dead caller's tasks")
