"""Ray nodes on other hosts, which share neither memory nor network with the caller."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hosts
import listening
import numpy
import psutil
import pytest
import ray_clusters
from dask_clusters import committed, trace, traces
from hosts import Net
from ray_clusters import OPEN, Head, Node

import tenfold
import waiting
from tenfold import errors
from tenfold.engines import ray as ray_engine
from tenfold.engines.cluster import crew

COUNT = 24
LARGE = 80_000_000  # three messages
LITTLE = 4 << 20  # bytes besides: calls, and signs of life for as long as they take


@dataclass
class Place:
    """A head without CPUs and the caller here, a node on each of two hosts."""

    net: Net
    head: Head
    nodes: list[Node]
    ray: Any


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    logs = tmp_path_factory.mktemp("logs")
    theirs = {**OPEN, "OF_THE_NODE": "theirs"}
    with (
        hosts.several() as net,
        ray_clusters.in_a_cluster() as ray,
        ray_clusters.head(logs, OPEN, cpus=0, host=net.here.address) as head,
        ray_clusters.on_host(logs, head, net.others[0], theirs) as first,
        ray_clusters.on_host(logs, head, net.others[1], theirs) as second,
    ):
        try:
            ray.init(f"{head.host}:{head.port}", log_to_driver=False, configure_logging=False)
            waiting.until(lambda: sum(node["Alive"] for node in ray.nodes()) == 3, 60, "three nodes")
            yield Place(net, head, [first, second], ray)
        finally:
            ray_engine.close()
            ray.shutdown()  # before its head ends, for which it would wait


def _meet(folder: Path, x: int, count: int = 4) -> None:
    """In a task: wait until so many workers have one."""
    trace(folder, x, "began")
    waiting.until(lambda: len(_pids(folder)) >= count, 40, "all workers")


def _pids(folder: Path) -> set[int]:
    return {pid for pids in traces(folder, "began").values() for pid in pids}


def test_a_large_array_is_sent_once_to_each_host_and_not_again(place: Place, tmp_path: Path) -> None:
    array = numpy.random.default_rng(0).integers(0, 255, LARGE, dtype=numpy.uint8)
    expected = [int(array[x::COUNT].sum(dtype=numpy.int64)) for x in range(COUNT)]

    def work(item: tuple[int, int]) -> tuple[str, int, int]:
        x, workers = item
        _meet(tmp_path / str(workers), x, workers)
        return os.readlink("/proc/self/ns/net"), os.getppid(), int(array[x::COUNT].sum(dtype=numpy.int64))

    nurseries = []
    for workers, least, most in ((4, LARGE, LARGE + LITTLE), (2, 0, LITTLE)):
        (tmp_path / str(workers)).mkdir()
        before = [place.net.sent(n) for n in range(2)] if place.net.real else []
        items = [(x, workers) for x in range(COUNT)]
        found = list(tenfold.map(work, items, engine=place.ray, workers=workers, progress=False))
        assert [total for *_, total in found] == expected
        nurseries.append({(network, nursery) for network, nursery, _ in found})
        if place.net.real:
            assert len({network for network, *_ in found}) == 2
            assert os.readlink("/proc/self/ns/net") not in {network for network, *_ in found}
            sent = [place.net.sent(n) - before[n] for n in range(2)]
            assert all(least <= count < most for count in sent), sent
    # Ray has ended the first foremen to make room for others; what all of a host's processes share is still there.
    assert nurseries[0] == nurseries[1]
    assert not place.net.real or len(nurseries[0]) == 2


def test_files_of_tasks_come_home_and_go_to_the_next_attempt(place: Place, tmp_path: Path) -> None:
    def work(x: int) -> tuple[str, str]:
        folder = tenfold.here().folder
        if tenfold.here().attempt == 1:
            (folder / "checkpoint").write_text(f"half of {x}")
            raise OSError("try again")
        (folder / "deep").mkdir()
        (folder / "deep" / "weights").write_bytes(bytes([x]) * 1_000_000)
        return str(folder), (folder / "checkpoint").read_text()

    run = tmp_path / "run"
    found = list(tenfold.map(work, range(4), engine=place.ray, run=run, retries=1, progress=False))
    for x, (there, kept) in enumerate(found):
        assert kept == f"half of {x}"
        folder = run / "tasks" / f"{x:06d}"
        assert (folder / "checkpoint").read_text() == kept
        assert (folder / "deep" / "weights").read_bytes() == bytes([x]) * 1_000_000
        if place.net.real:
            assert there != str(folder)
            assert not Path(there).exists()


def test_variables_are_the_nodes_but_for_those_of_imports(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "ours")
    monkeypatch.setenv("KERAS_HOME", "/nowhere")
    names = "OF_THE_CALLER", "KERAS_HOME", "OF_THE_NODE"
    found = set(tenfold.map(lambda x: tuple(os.environ.get(name) for name in names), range(4), engine=place.ray))
    assert found == ({(None, "/nowhere", "theirs")} if place.net.real else {("ours", "/nowhere", None)})


def test_nothing_of_ours_listens(place: Place, tmp_path: Path) -> None:
    """Tasks and nurseries listen nowhere, the caller where it did before, an actor where any of Ray's does."""

    class Plain:
        """An actor that has nothing to do with us."""

        def pid(self) -> int:
            return os.getpid()

    plain = place.ray.remote(Plain).options(num_cpus=0).remote()
    (usual,) = listening.ports([place.ray.get(plain.pid.remote())]).values()
    before = listening.ports([os.getpid()])

    def work(x: int) -> tuple[int, int]:
        trace(tmp_path, x, "began")
        waiting.until((tmp_path / "looked").exists, 40)
        return os.getpid(), os.getppid()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: list(tenfold.map(work, range(4), engine=place.ray, progress=False)))
        waiting.until(lambda: len(_pids(tmp_path)) == 4 or answer.done(), 40)
        actors = [pid for node in place.nodes for pid in node.processes() if _is_ours(pid)]
        found = listening.ports({os.getpid(), *actors, *_with_parents(tmp_path)})
        (tmp_path / "looked").touch()
        ours = {pid for some in answer.result(60) for pid in some}
    assert len(ours) == 4 + (2 if place.net.real else 1)  # tasks, and a nursery on each host
    assert ours <= found.keys()
    assert not any(found[pid] for pid in ours)
    assert found[os.getpid()] == before[os.getpid()]
    assert len(actors) == 4  # a keeper and a foreman on each host
    assert all(len(found[pid]) == len(usual) for pid in actors)


def _is_ours(pid: int) -> bool:
    """Whether a process is an actor of tenfold's."""
    return psutil.Process(pid).cmdline()[0].startswith(("ray::RayForeman", "ray::Keeper"))


def _with_parents(folder: Path) -> set[int]:
    return _pids(folder) | {psutil.Process(pid).ppid() for pid in _pids(folder)}


def test_a_host_that_is_cut_off_loses_nothing(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last in this file: the cluster is not what it was before."""
    if not place.net.real:
        pytest.skip("no network namespaces here: there is no cable to cut")
    monkeypatch.setattr(crew, "SILENCE", 4.0)  # instead of 15
    monkeypatch.setattr(ray_engine, "CALL_LIMIT", 4.0)  # instead of 30
    run = tmp_path / "run"
    finished: set[int] = set()
    array = numpy.arange(1_000_000)

    def work(x: int) -> int:
        _meet(tmp_path, x)
        time.sleep(0.15)  # the work
        trace(tmp_path, x)
        return int(array[x]) ** 2

    def cut() -> None:
        waiting.until(lambda: len(committed(run)) >= 8, 40)
        finished.update(committed(run))
        place.net.cut(1, [])

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    try:
        results = tenfold.map(work, range(COUNT), engine=place.ray, run=run, progress=False)
    finally:
        cutter.join()
        place.net.mend(1, [])
    assert list(results) == [x * x for x in range(COUNT)]
    assert len(finished) < COUNT
    ran = traces(tmp_path)
    assert all(len(ran[x]) == 1 for x in finished), "a finished task ran again"
    assert not [outcome for outcome in results.outcomes if isinstance(outcome.error, errors.TaskError)]
