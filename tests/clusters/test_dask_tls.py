"""A Dask cluster with TLS: the right certificates work, all else is refused in words; and we open no port ourselves."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import certificates
import dask_clusters
import listening
import pytest
from certificates import Certificates
from dask_clusters import Cluster, traces

import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.engines import dask


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("tls") / "good")


@pytest.fixture(scope="module")
def cluster(good: Certificates) -> Iterator[Cluster]:
    with dask_clusters.running(options=good.options(), threads=[2]) as found:
        assert found.address.startswith("tls://")
        yield found


@pytest.fixture(autouse=True)
def _new_connection(cluster: Cluster) -> Iterator[None]:
    dask.close()
    yield
    dask.close()


def test_certificates_work(cluster: Cluster, good: Certificates) -> None:
    with tenfold.use(cluster.address, security=good.security()):
        assert list(tenfold.map(lambda x: x * x, range(20))) == [x * x for x in range(20)]


def test_certificates_of_another_authority_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    bad = certificates.make(tmp_path / "bad")
    with (
        tenfold.use(cluster.address, security=bad.security()),
        pytest.raises(errors.ClusterLost, match="certificate") as caught,
    ):
        tenfold.map(abs, [1])
    assert cluster.address in str(caught.value)


def test_a_refused_security_is_not_replaced_by_the_last_good_one(
    cluster: Cluster, good: Certificates, tmp_path: Path
) -> None:
    with tenfold.use(cluster.address, security=good.security()):
        assert list(tenfold.map(abs, [-1])) == [1]
    bad = certificates.make(tmp_path / "bad")
    with tenfold.use(cluster.address, security=bad.security()), pytest.raises(errors.ClusterLost, match="certificate"):
        tenfold.map(abs, [1])


def test_without_certificates_it_says_what_is_missing(cluster: Cluster) -> None:
    with pytest.raises(errors.TenfoldError, match="security="):
        tenfold.map(abs, [1], engine=cluster.address)


def test_a_plain_address_is_told_of_tls(cluster: Cluster) -> None:
    began = time.monotonic()
    with pytest.raises(errors.ClusterLost, match="tls://"):
        tenfold.map(abs, [1], engine=cluster.address.replace("tls://", "tcp://"))
    assert time.monotonic() - began < 10


def test_nothing_of_ours_listens(cluster: Cluster, good: Certificates, tmp_path: Path) -> None:
    """Caller, nursery and tasks have no listening socket; Dask's processes only those that they had before."""

    def work(x: int) -> int:
        (tmp_path / f"ended {x}").write_text(f"{os.getpid()}\n")
        waiting.until((tmp_path / "looked").exists, 20)
        return x

    with tenfold.use(cluster.address, security=good.security()):
        list(tenfold.map(abs, [1]))  # all is up
        before = listening.ports([os.getpid(), *cluster.processes()])
        found: dict[int, set[int]] = {}

        def look() -> None:
            waiting.until(lambda: len(traces(tmp_path)) == 2)
            tasks = {pid for pids in traces(tmp_path).values() for pid in pids}
            ours = {os.getpid(), *scripts.descendants(os.getpid()), *cluster.processes()}
            found.update(listening.ports(sorted(ours)))
            (tmp_path / "looked").touch()
            assert tasks <= ours

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        assert list(tenfold.map(work, range(2), progress=False)) == [0, 1]
        thread.join()
    assert {pid: ports for pid, ports in found.items() if ports} == {
        pid: ports for pid, ports in before.items() if ports
    }
    assert not found[os.getpid()]
    assert len(found) >= 5  # the caller, a scheduler, a worker, a nursery, tasks
