"""The contract of every engine with processes of its own for tasks: threads, isolation and memory of a seat."""

from __future__ import annotations

import os
import re

import pytest

import tenfold
from tenfold import errors
from tenfold.plan.choose import Abilities


@pytest.mark.parametrize("cpus", [1, 2])
def test_every_thread_pool_keeps_to_the_seat(engine: str, abilities: Abilities, cpus: int) -> None:
    if not abilities.processes:
        pytest.skip("its tasks have the caller's threads")

    def threads(x: int) -> tuple[set[int], int, str]:
        import numpy
        import threadpoolctl
        import torch

        numpy.ones((8, 8)) @ numpy.ones((8, 8))
        pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        # PyTorch has an MKL of its own, where it has one, that nobody else can see.
        pools |= {int(n) for n in re.findall(r"mkl_get_max_threads\(\) : (\d+)", torch.__config__.parallel_info())}
        return pools, torch.get_num_threads(), os.environ["TF_NUM_INTRAOP_THREADS"]

    for found in tenfold.map(threads, range(3), engine=engine, cpus=cpus):
        assert found == ({cpus}, cpus, str(cpus))


def test_isolated_tasks_have_a_process_each(engine: str, abilities: Abilities) -> None:
    if not abilities.isolates:
        with pytest.raises(errors.TenfoldError, match="isolate"):
            tenfold.map(abs, [1], engine=engine, isolate=True)
        return
    results = tenfold.map(lambda _: os.getpid(), range(8), engine=engine, isolate=True)
    assert len(set(results)) == 8
    assert os.getpid() not in set(results)


def test_a_task_over_its_memory_is_stopped(engine: str, abilities: Abilities) -> None:
    if not abilities.limits_memory:
        pytest.skip("it cannot look at the memory of a task")

    def hoard(megabytes: int) -> int:
        import waiting

        kept = bytearray(megabytes * 1_000_000)
        kept[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(kept[:: os.sysconf("SC_PAGE_SIZE")])
        waiting.until(lambda: megabytes < 150, 20, "an end by somebody else")
        return megabytes

    results = tenfold.map(hoard, [10, 400, 20], engine=engine, memory="150MB", on_error="collect")
    assert isinstance(results[1], errors.TaskOutOfMemory)
    assert "memory=150.0 MB" in str(results[1])
    assert results[::2] == [10, 20]
