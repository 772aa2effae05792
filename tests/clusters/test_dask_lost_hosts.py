"""A host is lost in the middle of a training: the others notice it within seconds, and make the same weights."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask_clusters
import hosts
import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test
from dask_clusters import Cluster, Process
from hosts import Net

import lossy
import tenfold
import waiting
from tenfold.engines import dask
from tenfold.engines.cluster import crew

SOURCE = {"PYTHONPATH": str(Path(tenfold.__file__).parents[1])}
"""So that hosts have the code of this process, whichever is installed."""
_IMPATIENT = """
from tenfold.engines.cluster import foreman

foreman.CALLER_GONE = 6.0  # instead of 20
"""


@dataclass
class Place:
    """A worker on each host, and one here."""

    net: Net
    cluster: Cluster
    workers: list[Process]
    preload: Path

    def start(self, number: int) -> Process:
        words = "--preload", str(self.preload)
        found = self.cluster.worker(*words, host=self.net.others[number], variables=SOURCE, wait=False)
        self.workers[number : number + 1] = [found]
        return found

    def namespace(self, number: int) -> str:
        return os.readlink(f"/proc/{self.workers[number].pid}/ns/net")

    def kill(self, number: int) -> None:
        """The host's worker of Dask, and the nursery and the workers that came from it."""
        where = self.namespace(number)
        for pid in self.cluster.processes():
            if os.readlink(f"/proc/{pid}/ns/net") == where:
                os.kill(pid, signal.SIGKILL)
        self.workers[number].process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    preload = tmp_path_factory.mktemp("preload") / "impatient.py"
    preload.write_text(_IMPATIENT)
    with hosts.several() as net, dask_clusters.running(net.here) as cluster:
        if not net.real:
            pytest.skip("there are no network namespaces, and so no other hosts")
        found = Place(net, cluster, [], preload)
        for worker in [found.start(0), found.start(1), cluster.worker(host=net.here, variables=SOURCE, wait=False)]:
            worker.says("Registered to:")
        yield found


@pytest.fixture(scope="module")
def calm() -> Any:
    fit = tenfold.Fit(lossy.build, (lossy.X, lossy.Y), epochs=8, batch_size=20, validation=0.2)
    return tenfold.train(fit, {"seed": 1}, workers=1, progress=False)


def train(place: Place, folder: Path, act: str, **options: Any) -> Any:
    fit = tenfold.Fit(lossy.build_far, (lossy.X, lossy.Y), epochs=8, batch_size=20, validation=0.2)
    params = {"seed": 1, "folder": str(folder), "host": place.namespace(1), "act": act}
    return tenfold.train(fit, params, workers=3, cpus=1, engine=place.cluster.address, progress=False, **options)


def lost(place: Place, folder: Path, act: str, does: Callable[[], None]) -> Any:
    """A training in whose middle something is done to the second host."""

    def meet() -> None:
        waiting.until((folder / "met").exists, 60, "the tenth loss")
        does()
        (folder / act).touch()

    thread = threading.Thread(target=meet, daemon=True)
    thread.start()
    found = train(place, folder, act)
    thread.join()
    return found


def check_same(found: Any, calm: Any) -> None:
    for name, weights in calm.weights.items():
        numpy.testing.assert_allclose(found.weights[name], weights, atol=1e-5)
    numpy.testing.assert_allclose(found.history["val_loss"], calm.history["val_loss"], rtol=1e-4)


def check(found: Any, calm: Any) -> None:
    check_same(found, calm)
    assert any("2 of 3 workers go on at step" in event for event in found.events), found.events


def silence(found: Any) -> float:
    """After how many seconds a worker was missed, as the caller tells it."""
    said = [re.search(r"worker \d:? (?:it )?has given no sign of life for ([\d.]+) s", event) for event in found.events]
    return next(float(one[1]) for one in said if one)


def test_a_stopped_worker_on_another_host_is_missed_and_replaced(place: Place, calm: Any, tmp_path: Path) -> None:
    found = train(place, tmp_path, "stop")
    check(found, calm)
    assert silence(found) <= 5


def test_a_stopped_worker_of_a_divided_training(place: Place, calm: Any, tmp_path: Path) -> None:
    found = train(place, tmp_path, "stop", how="sharded", run=tmp_path / "run", checkpoint=3)
    check_same(found, calm)
    assert silence(found) <= 5
    assert found.events[-1].endswith("3 of 3 workers start again from step 6")  # two losses were of validation


def test_a_host_whose_processes_are_killed(place: Place, calm: Any, tmp_path: Path) -> None:
    found = lost(place, tmp_path, "killed", lambda: place.kill(1))
    check(found, calm)
    place.start(1).says("Registered to:")


def test_a_host_that_is_cut_off(place: Place, calm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last in this file: the cluster is not what it was before."""
    monkeypatch.setattr(crew, "SILENCE", 4.0)  # instead of 15
    monkeypatch.setattr(dask, "CALL_LIMIT", 4.0)  # instead of 30
    try:
        found = lost(place, tmp_path, "cut", lambda: place.net.cut(1, [place.workers[1]]))
    finally:
        place.net.mend(1, [place.workers[1]])
    check(found, calm)
    assert silence(found) <= 5
