"""What a caller is told when a Dask cluster cannot be used: soon, and with what to do about it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask_clusters
import pytest
from dask_clusters import HERE, Cluster, trace, traces

import leftovers
import tenfold
from tenfold import errors

LIMIT = 10.0


@pytest.fixture(scope="module")
def empty() -> Iterator[Cluster]:
    """A cluster without a worker."""
    with dask_clusters.running() as found:
        yield found


@pytest.fixture
def quick() -> Iterator[None]:
    """Dask's client has threads of its own, also where it does not connect."""
    before, leftovers.clusters.dask = leftovers.clusters.dask, True
    began = time.monotonic()
    yield
    leftovers.clusters.dask = before
    assert time.monotonic() - began < LIMIT


@pytest.mark.parametrize(
    "address",
    [
        "dask://",
        "dask://host",
        "dask://host:",
        "dask://:8786",
        "dask://host:port",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:99999",
        "tls://127.0.0.1:8786x",
        "dask:/127.0.0.1:8786",
        "dusk://127.0.0.1:8786",
        "dask://127.0.0.1:8786/path",
    ],
)
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(errors.BadCall, match=re.escape(address)):
        tenfold.map(abs, [1], engine=address)


def test_an_object_of_dask_that_is_no_client_is_refused() -> None:
    import distributed

    with pytest.raises(errors.BadCall, match=re.escape("distributed.Client")):
        tenfold.map(abs, [1], engine=distributed)


@pytest.mark.usefixtures("quick")
def test_nobody_listens() -> None:
    with socket.socket() as end:
        end.bind((HERE, 0))
        port = end.getsockname()[1]
    for address in (f"dask://{HERE}:{port}", f"tcp://localhost:{port}", f"tcp://[::1]:{port}"):
        with pytest.raises(errors.ClusterLost, match=re.escape(address)):
            tenfold.map(abs, [1], engine=address)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_no_way_there(host: str) -> None:
    with pytest.raises(errors.ClusterLost, match=host):
        tenfold.map(abs, [1], engine=f"dask://{host}:8786")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "another protocol"])
def test_somebody_else_listens(words: bytes) -> None:
    """Not a scheduler: it says nothing, or something else."""
    with socket.create_server((HERE, 0)) as server:
        taken: list[socket.socket] = []

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    end, _ = server.accept()
                    taken.append(end)
                    if words:
                        end.sendall(words)
                        end.close()

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://{HERE}:{server.getsockname()[1]}"
        try:
            with pytest.raises(errors.ClusterLost, match=re.escape(address)):
                tenfold.map(abs, [1], engine=address)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for end in taken:
                end.close()


def test_a_cluster_without_a_worker_is_told_of(empty: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenfold.engines.dask.NODE_LIMIT", 1.0)
    with pytest.raises(errors.WorkersUnavailable, match=f"dask worker {empty.address}") as caught:
        tenfold.map(abs, [1], engine=empty.address)
    assert not isinstance(caught.value, errors.ClusterLost)


def test_a_worker_that_comes_while_a_call_waits_is_used(empty: Cluster, tmp_path: Path) -> None:
    starter = threading.Thread(target=empty.worker, daemon=True)
    starter.start()

    def work(x: int) -> int:
        trace(tmp_path, x)
        return x * x

    assert list(tenfold.map(work, range(5), engine=empty.address)) == [0, 1, 4, 9, 16]
    starter.join()
    assert all(len(pids) == 1 for pids in traces(tmp_path).values())
