"""GPUs that Dask workers declare: tasks see their own, and nobody is given what another one holds. Pretended ones."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask_clusters
import pytest
from dask_clusters import Cluster

import tenfold
import waiting
from tenfold import engines, errors
from tenfold.engines import dask
from tenfold.engines.cluster import crew, dask_holding

TWO = {"TENFOLD_GPUS": "2"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with dask_clusters.running() as found:
        found.worker("--resources", "GPU=2", threads=4, variables=TWO)
        yield found


def _span(x: int) -> tuple[str, tuple[str, ...], float, float]:
    began = time.monotonic()
    time.sleep(0.15)  # the work
    return os.environ.get("CUDA_VISIBLE_DEVICES", ""), tenfold.here().gpus, began, time.monotonic()


def _most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(began <= start < ended for began, ended in spans) for start, _ in spans)


@pytest.mark.parametrize(("gpus", "at_once"), [(1, 1), (0.5, 2)])
def test_no_device_is_given_to_more_than_fit(cluster: Cluster, gpus: float, at_once: int) -> None:
    found = list(tenfold.map(_span, range(12), gpus=gpus, engine=cluster.address, progress=False))
    assert {visible for visible, *_ in found} == {"0", "1"}
    assert all((visible,) == held for visible, held, _, _ in found)
    for device in ("0", "1"):
        spans = [(began, ended) for visible, _, began, ended in found if visible == device]
        assert _most_at_once(spans) <= at_once
    assert _most_at_once([(began, ended) for _, _, began, ended in found]) > 1, "one after the other"


def test_both_devices_for_one_task(cluster: Cluster) -> None:
    found = list(tenfold.map(_span, range(3), gpus=2, engine=cluster.address, progress=False))
    assert {visible for visible, *_ in found} == {"0,1"}
    assert _most_at_once([(began, ended) for _, _, began, ended in found]) == 1


def test_a_task_without_gpus_sees_none(cluster: Cluster) -> None:
    found = list(tenfold.map(_span, range(4), engine=cluster.address, progress=False))
    assert {(visible, held) for visible, held, _, _ in found} <= {("", ()), ("-1", ())}


def test_dask_gives_them_to_nobody_else_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    from distributed import Client

    def work(x: int) -> str:
        (tmp_path / f"began {x}").touch()
        waiting.until((tmp_path / "go").exists, 20)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    found: list[str] = []
    call = threading.Thread(
        target=lambda: found.extend(tenfold.map(work, range(2), gpus=1, engine=cluster.address, progress=False))
    )
    call.start()
    with Client(cluster.address, set_as_default=False) as client:
        waiting.until(lambda: len(list(tmp_path.glob("began *"))) == 2)
        other = client.submit(os.getpid, resources={"GPU": 1}, pure=False)
        with pytest.raises(TimeoutError):
            other.result(timeout=1)
        (tmp_path / "go").touch()
        assert other.result(timeout=10) > 0
        call.join()
        assert sorted(found) == ["0", "1"]
        assert client.submit(os.getpid, resources={"GPU": 2}, pure=False).result(timeout=10) > 0


def test_what_nobody_has_declared_does_not_fit() -> None:
    with dask_clusters.running() as cluster:
        cluster.worker(variables=TWO)
        with pytest.raises(errors.DoesNotFit, match="dask worker --resources"):
            tenfold.map(_span, range(2), gpus=1, engine=cluster.address)


def test_more_than_a_worker_has_does_not_fit(cluster: Cluster) -> None:
    with pytest.raises(errors.DoesNotFit, match="3"):
        tenfold.map(_span, range(2), gpus=3, engine=cluster.address)


def test_two_workers_of_one_machine_have_different_devices() -> None:
    with dask_clusters.running() as cluster:
        for worker in [cluster.worker("--resources", "GPU=1", variables=TWO, wait=False) for _ in range(2)]:
            worker.says("Registered to:")
        found = list(tenfold.map(_span, range(10), gpus=1, engine=cluster.address, progress=False))
        assert {visible for visible, *_ in found} == {"0", "1"}
        for device in ("0", "1"):
            assert _most_at_once([(began, ended) for visible, _, began, ended in found if visible == device]) == 1


def test_the_cpus_that_a_worker_declares_are_held(tmp_path: Path) -> None:
    from distributed import Client

    def work(x: int) -> int:
        (tmp_path / f"began {x}").touch()
        waiting.until((tmp_path / "go").exists, 20)
        return x

    with dask_clusters.running() as cluster, ThreadPoolExecutor(1) as pool:
        cluster.worker("--resources", "CPU=2", threads=4)
        answer = pool.submit(tenfold.map, work, range(4), engine=cluster.address, progress=False)
        waiting.until(lambda: len(list(tmp_path.glob("began *"))) == 2 or answer.done())
        with Client(cluster.address, set_as_default=False) as client:
            other = client.submit(os.getpid, resources={"CPU": 1}, pure=False)
            with pytest.raises(TimeoutError):
                other.result(timeout=1)
            assert client.submit(os.getpid, pure=False).result(timeout=10) > 0, "a thread is taken"
            (tmp_path / "go").touch()
            assert answer.result(20).workers == 2
            assert other.result(timeout=10) > 0
        spans = [span for _, _, *span in tenfold.map(_span, range(4), engine=cluster.address, cpus=2, progress=False)]
        assert _most_at_once([(began, ended) for began, ended in spans]) == 1
        with pytest.raises(errors.DoesNotFit, match="cpus=3"):
            tenfold.map(abs, [1], engine=cluster.address, cpus=3)


def test_a_call_that_waits_for_room_says_so(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    from distributed import Client

    monkeypatch.setattr(crew, "ROOM_LIMIT", 0.2)
    with dask_clusters.running() as cluster, ThreadPoolExecutor(1) as pool:
        cluster.worker("--resources", "CPU=2", threads=4)
        engine = engines.find(cluster.address)
        engine.machines()
        assert 0 < engine.abilities.seconds_per_batch != dask.DaskEngine.abilities.seconds_per_batch, "not measured"
        with Client(cluster.address, set_as_default=False) as client:
            other = client.submit(dask_holding.hold, "other", key="other", resources={"CPU": 2})
            assert all(client.run(dask_holding.is_held, "other", 20).values())
            answer = pool.submit(tenfold.map, abs, [-1, -2], engine=cluster.address, progress=False)
            waiting.until(lambda: any("has no room yet" in str(one.message) for one in recwarn) or answer.done())
            assert not answer.done()
            client.run(dask_holding.let_go, "other")
            assert list(answer.result(20)) == [1, 2]
            other.release()
