"""Crash isolation of the joblib backend: workers that die, callers that are killed, and what is left of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from joblib import Parallel, delayed, parallel_config

import leftovers
import scripts
import tenfold.joblib
import waiting
from tenfold import errors
from tenfold.joblib import pools


def die_once(folder: Path, n: int, fatal: int) -> int:
    """Writes down each attempt; the first one at `fatal` kills its worker."""
    attempts = folder / str(n)
    with open(attempts, "a") as file:
        file.write("x")
    if n == fatal and attempts.read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return n


@pytest.mark.parametrize("batch_size", [1, 4, "auto"])
@pytest.mark.parametrize("return_as", ["list", "generator_unordered"])
def test_the_call_of_a_dead_worker_is_run_again_and_no_other(
    tmp_path: Path, batch_size: int | str, return_as: str
) -> None:
    parallel = Parallel(n_jobs=2, backend="tenfold", batch_size=batch_size, return_as=return_as)
    results = parallel(delayed(die_once)(tmp_path, n, fatal=6) for n in range(12))
    assert sorted(results) == list(range(12))
    attempts = {int(path.name): len(path.read_text()) for path in tmp_path.iterdir()}
    assert attempts == {n: 2 if n == 6 else 1 for n in range(12)}


def test_a_call_that_always_dies_is_named_and_what_came_before_it_is_not_lost() -> None:
    def end(n: int) -> int:
        if n == 4:
            os._exit(7)
        return n

    parallel = Parallel(n_jobs=2, backend="tenfold", batch_size=1, pre_dispatch=2, return_as="generator")
    results = parallel(delayed(end)(n) for n in range(8))
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(errors.TaskDied) as caught:
        list(results)
    for part in ("task 4 failed", "its process ended by itself with status 7", "end(4)", "attempt 3"):
        assert part in str(caught.value)
    assert Parallel(n_jobs=2, backend="tenfold")(delayed(end)(n) for n in range(3)) == [0, 1, 2]


def test_a_worker_that_dies_between_two_calls_is_replaced() -> None:
    with parallel_config("tenfold", n_jobs=2):
        pids = Parallel()(delayed(os.getpid)() for _ in range(4))
        for pid in set(pids):
            os.kill(pid, signal.SIGKILL)
            waiting.for_exit(pid)
        again = Parallel()(delayed(os.getpid)() for _ in range(4))
    assert set(again).isdisjoint(pids)


def test_a_killed_nursery_costs_no_result(tmp_path: Path) -> None:
    def kill_first(n: int, nursery: int) -> int:
        if n == 2:
            try:
                (tmp_path / "once").touch(exist_ok=False)
            except FileExistsError:
                return n
            os.kill(nursery, signal.SIGKILL)
        return n

    Parallel(n_jobs=2, backend="tenfold")(delayed(abs)(n) for n in range(2))
    (nursery,) = leftovers.nursery_processes()
    calls = (delayed(kill_first)(n, nursery) for n in range(6))
    assert Parallel(n_jobs=2, backend="tenfold", batch_size=1)(calls) == list(range(6))


def test_a_fork_of_the_caller_has_no_workers_and_ends_none() -> None:
    with parallel_config("tenfold", n_jobs=2):
        before = set(Parallel()(delayed(os.getpid)() for _ in range(8)))
        child = os.fork()
        if child == 0:
            try:
                tenfold.joblib.shutdown()
            finally:
                os._exit(0 if not pools._kept else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert set(Parallel()(delayed(os.getpid)() for _ in range(8))) <= before


SCRIPT = """
    import os, time
    import numpy
    import tenfold.joblib
    from joblib import Parallel, delayed

    def work(array, n):
        with open("pids", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        if n == {stays}:
            time.sleep(60)
        return n

    print(Parallel(n_jobs=2, backend="tenfold")(delayed(work)(numpy.ones(300_000), n) for n in range(4)))
"""


def workers(folder: Path) -> set[int]:
    return {int(line) for line in (folder / "pids").read_text().split()} if (folder / "pids").exists() else set()


def files() -> list[str]:
    return [path for path in leftovers.files() if "tenfold-joblib-" in path]


def test_a_script_leaves_nothing_behind(tmp_path: Path) -> None:
    assert scripts.run(tmp_path, SCRIPT.format(stays=-1)).out.strip() == "[0, 1, 2, 3]"
    assert workers(tmp_path)
    for pid in workers(tmp_path):
        waiting.for_exit(pid)
    assert not files()


@pytest.mark.parametrize("end", ["kill", "interrupt"])
def test_nor_does_one_that_is_killed_or_interrupted(tmp_path: Path, end: str) -> None:
    with scripts.started(tmp_path, SCRIPT.format(stays=3)) as script:
        waiting.until(lambda: len((tmp_path / "pids").read_text().split()) == 4 if workers(tmp_path) else False)
        assert files(), "the arrays are in files as long as they are needed"
        getattr(script, end)()
        ended = script.end()
    if end == "interrupt":
        assert "KeyboardInterrupt" in ended.err
    for pid in workers(tmp_path):
        waiting.for_exit(pid)
    waiting.until(lambda: not files())
