"""Ray: CPUs and GPUs are those that Ray counts, and what others hold there is theirs. Pretended: 4 CPUs, 2 GPUs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray_clusters

import tenfold
from tenfold import errors


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFOLD_GPUS", "2")
        with ray_clusters.joined(num_cpus=4, num_gpus=2) as found:
            yield found


def _spans(folder: Path) -> list[tuple[float, float, str]]:
    """When each task began and ended, and which devices it saw."""
    found = []
    for path in folder.iterdir():
        began, ended, devices = path.read_text().split(" ", 2)
        found.append((float(began), float(ended), devices))
    return found


def _at_once(spans: list[tuple[float, float, str]]) -> int:
    return max(sum(began <= moment < ended for began, ended, _ in spans) for moment, _, _ in spans)


def _task(folder: Path) -> Any:
    def work(x: int) -> str:
        began = time.time()
        time.sleep(0.4)
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        (folder / str(x)).write_text(f"{began} {time.time()} {devices}")
        return devices

    return work


def test_two_cpus_each(ray: Any, tmp_path: Path) -> None:
    results = tenfold.map(_task(tmp_path), range(6), engine=ray, cpus=2)
    assert results.workers == 2
    assert _at_once(_spans(tmp_path)) == 2
    assert set(results) <= {"", "-1"}  # no task sees a GPU that it did not ask for


@pytest.mark.parametrize(("gpus", "at_once"), [(1, 1), (0.5, 2)])
def test_shares_of_gpus(gpus: float, at_once: int, ray: Any, tmp_path: Path) -> None:
    results = tenfold.map(_task(tmp_path), range(8), engine=ray, gpus=gpus)
    assert set(results) == {"0", "1"}
    for device in ("0", "1"):
        assert _at_once([span for span in _spans(tmp_path) if span[2] == device]) <= at_once
    assert _at_once(_spans(tmp_path)) == 2 * at_once


def test_two_gpus_for_one_task(ray: Any, tmp_path: Path) -> None:
    results = tenfold.map(_task(tmp_path), range(2), engine=ray, gpus=2)
    assert [sorted(devices.split(",")) for devices in results] == [["0", "1"]] * 2
    assert _at_once(_spans(tmp_path)) == 1


def test_what_others_hold_is_theirs(ray: Any, tmp_path: Path) -> None:
    class Holder:
        def ids(self) -> list[Any]:
            import ray

            return list(ray.get_gpu_ids())

    holder = ray.remote(Holder).options(num_gpus=1, num_cpus=1).remote()
    (held,) = ray.get(holder.ids.remote())
    try:
        results = tenfold.map(_task(tmp_path), range(4), engine=ray, gpus=1)
        assert set(results) == {"0", "1"} - {str(held)}
        assert _at_once(_spans(tmp_path)) == 1
    finally:
        ray.kill(holder)


def test_more_than_there_is(ray: Any) -> None:
    with pytest.raises(errors.DoesNotFit, match="Ray"):
        tenfold.map(abs, [1], engine=ray, gpus=3)
    with pytest.raises(errors.DoesNotFit, match=re.escape("cpus=5")):
        tenfold.map(abs, [1], engine=ray, cpus=5)
