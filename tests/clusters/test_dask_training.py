"""One model, trained by workers on several hosts that share neither memory nor network with the caller."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask_clusters
import hosts
import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test
from dask_clusters import Cluster

import lossy
import tenfold
import waiting
from tenfold.training import stations

SOURCE = {"PYTHONPATH": str(Path(tenfold.__file__).parents[1])}
"""So that hosts have the code of this process, whichever is installed."""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Cluster, bool]]:
    """The cluster, and whether its hosts are more than addresses of this one."""
    with hosts.several() as net, dask_clusters.running(net.here) as found:
        for worker in [found.worker(host=host, variables=SOURCE, wait=False) for host in (*net.others, net.here)]:
            worker.says("Registered to:")
        yield found, net.real


def furthest(one: Any, other: Any) -> float:
    return max(float(numpy.abs(one.weights[name] - other.weights[name]).max()) for name in one.weights)


def test_hosts_train_what_one_process_trains_also_when_one_is_lost(place: tuple[Cluster, bool], tmp_path: Path) -> None:
    cluster, _ = place
    fit = tenfold.Fit(lossy.build, (lossy.X, lossy.Y), epochs=8, batch_size=20, validation=0.2)
    here = tenfold.train(fit, {"seed": 1}, workers=1, progress=False)
    there = tenfold.train(fit, {"seed": 1}, workers=3, cpus=1, engine=cluster.address, progress=False)
    assert furthest(here, there) < 1e-5
    numpy.testing.assert_allclose(here.history["val_loss"], there.history["val_loss"], rtol=1e-4)
    ways: tuple[Any, ...] = (None, "gloo")
    for exchange in ways:
        folder = tmp_path / str(exchange)
        folder.mkdir()
        params = {"seed": 1, "folder": str(folder)}
        lost = tenfold.train(fit, params, workers=3, cpus=1, exchange=exchange, engine=cluster.address, progress=False)
        assert (folder / "killed").exists()
        assert any("2 of 3" in event for event in lost.events), lost.events
        assert furthest(here, lost) < 1e-5


def build_until(folder: str, processes: int) -> Any:
    """Steps take their time until so many processes have taken one."""
    module, loss, optimizer = lossy.build()

    def noted(outputs: Any, targets: Any) -> Any:
        if outputs.requires_grad:  # before the first step, the loss is asked what it is
            (Path(folder) / f"process-{os.getpid()}").touch()
        if len(list(Path(folder).glob("process-*"))) < processes:
            time.sleep(0.1)
        return loss(outputs, targets)

    return module, noted, optimizer


def test_nodes_that_come_after_others_were_lost_are_trained_with(tmp_path: Path) -> None:
    fit = tenfold.Fit(build_until, (lossy.X, lossy.Y), epochs=40, batch_size=20)
    here = tenfold.train(fit, {"seed": 1, "folder": str(tmp_path), "processes": 0}, workers=1, progress=False)
    (tmp_path / "there").mkdir()
    with dask_clusters.running() as cluster:
        first = [cluster.worker(variables=SOURCE) for _ in range(3)]

        def exchange() -> None:
            waiting.until(lambda: len(list((tmp_path / "there").glob("process-*"))) == 3, 60, "the first step")
            for lost in first[1:]:
                lost.kill()
            for _ in range(2):
                cluster.worker(variables=SOURCE, wait=False)

        thread = threading.Thread(target=exchange)
        thread.start()
        params = {"seed": 1, "folder": str(tmp_path / "there"), "processes": 5}
        there = tenfold.train(fit, params, workers=3, cpus=1, engine=cluster.address, progress=False)
        thread.join()
    groups = [event.partition(": ")[2] for event in there.events if "go on at step" in event]
    assert groups[0] == "3 of 3 workers go on at step 0"
    assert groups[-1].startswith("3 of 3 workers go on at step "), there.events
    assert any(group.startswith("1 of 3") for group in groups), there.events
    assert furthest(here, there) < 1e-5


def test_asynchronous_weights_are_with_servers(
    place: tuple[Cluster, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, several = place
    monkeypatch.setattr(stations, "PART", 50)  # of the 75 numbers of this model: two servers, one on each host
    fit = tenfold.Fit(lossy.build, (lossy.X, lossy.Y), epochs=6, batch_size=20)
    lost = tenfold.train(
        fit,
        {"seed": 1, "folder": str(tmp_path)},
        workers=3,
        cpus=1,
        how="asynchronous",
        staleness=2,
        engine=cluster.address,
        progress=False,
    )
    assert (tmp_path / "killed").exists()
    assert lost.updates == 6 * 8
    assert lost.history["loss"][-1] < 0.6 * lost.history["loss"][0]
    assert any("parameter server 1 is there" in event for event in lost.events) == several, lost.events
