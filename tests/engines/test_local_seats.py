"""The local engine's seats: threads, cores, environment and processes of each task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import errors

CORES = len(os.sched_getaffinity(0))


def look(x: int) -> dict[str, Any]:
    import threadpoolctl

    return {
        "pid": os.getpid(),
        "cores": tuple(sorted(os.sched_getaffinity(0))),
        "omp": os.environ["OMP_NUM_THREADS"],
        "mkl": os.environ["MKL_NUM_THREADS"],
        "openblas": os.environ["OPENBLAS_NUM_THREADS"],
        "intra": os.environ["TF_NUM_INTRAOP_THREADS"],
        "inter": os.environ["TF_NUM_INTEROP_THREADS"],
        "pools": {pool["num_threads"] for pool in threadpoolctl.threadpool_info()},
    }


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
@pytest.mark.parametrize("cpus", [1, 2])
def test_every_thread_pool_keeps_to_the_seat(cpus: int) -> None:
    for found in tenfold.map(look, range(6), cpus=cpus):
        assert len(found["cores"]) == cpus
        assert found["omp"] == found["mkl"] == found["openblas"] == found["intra"] == str(cpus)
        assert found["inter"] == "2"
        assert found["pools"] == {cpus}


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
def test_workers_are_spread_over_the_cores(tmp_path: Path) -> None:
    def wait_for_all(x: int) -> tuple[int, ...]:
        import waiting

        (tmp_path / str(x)).touch()
        waiting.until(lambda: len(list(tmp_path.iterdir())) == 2)
        return tuple(os.sched_getaffinity(0))

    first, second = tenfold.map(wait_for_all, range(2), workers=2)
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.slow
def test_torch_and_tensorflow_keep_to_the_seat(tmp_path: Path) -> None:
    text = """
        import os
        import tenfold

        def threads(x):
            import torch
            return torch.get_num_threads(), len(os.sched_getaffinity(0)), os.environ["TF_NUM_INTRAOP_THREADS"]

        def spawned(x):
            import torch
            return torch.get_num_threads()

        print(set(tenfold.map(threads, range(4), cpus=1)), set(tenfold.map(threads, range(2), cpus=2)))
        os.environ["TENFOLD_START"] = "spawn"
        print(set(tenfold.map(spawned, range(2), cpus=1)), set(tenfold.map(spawned, range(1), cpus=2)))
    """
    ended = scripts.run(tmp_path, text)
    cores = min(2, CORES)
    assert ended.out.splitlines() == [f"{{(1, 1, '1')}} {{(2, {cores}, '2')}}", "{1} {2}"]


def _pid(x: int) -> int:
    return os.getpid()


def test_isolated_tasks_have_a_process_each() -> None:
    results = tenfold.map(_pid, range(12), isolate=True)
    assert len(set(results)) == 12
    assert os.getpid() not in set(results)


def test_workers_are_reused_otherwise() -> None:
    results = tenfold.map(_pid, range(200), workers=2)
    assert len(set(results)) <= 2
    assert os.getpid() not in set(results)


def test_two_workers_work_at_the_same_time(tmp_path: Path) -> None:
    def meet(x: int) -> int:
        import waiting

        (tmp_path / str(x)).touch()
        waiting.until(lambda: len(list(tmp_path.iterdir())) == 3)
        return x

    assert tenfold.map(meet, range(3), workers=3)[:] == [0, 1, 2]


def test_what_a_task_does_to_its_process_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ), os.getcwd(), os.umask(0o022)
    os.umask(before[2])

    def change(x: int) -> None:
        os.environ["LEFT_BY_A_TASK"] = "1"
        os.environ.pop("PATH", None)
        os.chdir("/")
        os.umask(0o777)

    tenfold.map(change, range(4))
    after = dict(os.environ), os.getcwd(), os.umask(before[2])
    assert after == before


def test_the_callers_folder_may_be_gone(tmp_path: Path) -> None:
    text = """
        import os, tempfile
        import tenfold
        os.chdir(tempfile.mkdtemp())
        os.rmdir(os.getcwd())
        print(tenfold.map(abs, [-1, -2])[:])
    """
    assert scripts.run(tmp_path, text).out == "[1, 2]\n"


def test_a_nested_call_divides_its_seat_only() -> None:
    def outer(x: int) -> dict[str, Any]:
        from tenfold import machine

        inner = tenfold.map(lambda y: (os.getpid(), tuple(os.sched_getaffinity(0))), range(6))
        refused = None
        try:
            tenfold.map(abs, [1], cpus=2)
        except errors.DoesNotFit as error:
            refused = str(error)
        return {
            "cpus": machine.look().cpus,
            "cores": tuple(os.sched_getaffinity(0)),
            "workers": inner.workers,
            "inner cores": {cores for _, cores in inner},
            "in processes of their own": os.getpid() not in {pid for pid, _ in inner},
            "refused": refused,
        }

    for found in tenfold.map(outer, range(2), cpus=1):
        assert found["cpus"] == 1
        assert found["workers"] == 1
        assert found["inner cores"] == {found["cores"]}
        assert found["in processes of their own"]
        assert "cpus=2, and 1 may be used here" in (found["refused"] or "")


def test_a_nested_call_may_divide_two_cores_and_memory() -> None:
    def outer(x: int) -> tuple[int, int]:
        from tenfold import machine

        return tenfold.map(abs, range(4)).workers, machine.look().memory

    if CORES >= 2:
        assert tenfold.map(outer, [0], cpus=2, memory="300MB")[:] == [(2, 300_000_000)]


def test_three_levels_of_calls() -> None:
    def outer(x: int) -> list[list[int]]:
        def middle(y: int) -> list[int]:
            return tenfold.map(lambda z: 100 * x + 10 * y + z, range(2))[:]

        return tenfold.map(middle, range(2))[:]

    assert tenfold.map(outer, range(2))[:] == [[[0, 1], [10, 11]], [[100, 101], [110, 111]]]
