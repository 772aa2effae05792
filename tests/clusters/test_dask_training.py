"""One model, trained by workers on several hosts that share neither memory nor network with the caller."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask_clusters
import hosts
import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test
from dask_clusters import Cluster

import tenfold
from tenfold.errors import TasksFailed

X = numpy.random.default_rng(0).normal(size=(150, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with hosts.several() as net, dask_clusters.running(net.here) as found:
        for worker in [found.worker(host=host, wait=False) for host in (*net.others, net.others[0])]:
            worker.says("Registered to:")
        yield found


def build(lr: float = 0.05, folder: str = "") -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    calls = []

    def loss(outputs: Any, targets: Any) -> Any:
        calls.append(0)
        if folder and len(calls) == 10:
            try:
                open(os.path.join(folder, "killed"), "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return torch.nn.functional.cross_entropy(outputs, targets)

    return module, loss, torch.optim.Adam(module.parameters(), lr)


def furthest(one: Any, other: Any) -> float:
    return max(float(numpy.abs(one.weights[name] - other.weights[name]).max()) for name in one.weights)


def test_hosts_train_what_one_process_trains_also_when_one_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=8, batch_size=20, validation=0.2)
    here = tenfold.train(fit, {"seed": 1}, workers=1, progress=False)
    there = tenfold.train(fit, {"seed": 1}, workers=3, cpus=1, engine=cluster.address, progress=False)
    assert furthest(here, there) < 1e-5
    numpy.testing.assert_allclose(here.history["val_loss"], there.history["val_loss"], rtol=1e-4)
    params = {"seed": 1, "folder": str(tmp_path)}
    lost = tenfold.train(fit, params, workers=3, cpus=1, engine=cluster.address, progress=False)
    assert (tmp_path / "killed").exists()
    assert any("2 of 3" in event for event in lost.events), lost.events
    assert furthest(here, lost) < 1e-5


def test_asynchronous_needs_one_host(cluster: Cluster) -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=2, batch_size=20)
    with pytest.raises(TasksFailed, match="the workers are on several machines"):
        tenfold.train(fit, {"seed": 1}, workers=3, cpus=1, how="asynchronous", engine=cluster.address, progress=False)
