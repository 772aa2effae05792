"""Nodes that have something else installed are named before any task starts."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import dask_clusters
import pytest
from dask_clusters import Cluster, Process, trace, traces

import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.engines.cluster import facts

_HIDES_TENFOLD = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tenfold":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
"""
_OLD_TENFOLD = """
import tenfold

tenfold.__version__ = "0.0.1"
"""


# Dask compares, too, and warns; it does not know tenfold, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with dask_clusters.running() as found:
        yield found


def _with_other(cluster: Cluster, folder: Path, what: str) -> tuple[Process, str]:
    """A worker with something else installed, and how that is told."""
    folder.mkdir()
    if what == "numpy":
        (folder / "numpy-1.2.3.dist-info").mkdir()
        (folder / "numpy-1.2.3.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: numpy\nVersion: 1.2.3\n"
        )
        return cluster.worker(variables={"PYTHONPATH": str(folder)}), "numpy 1.2.3 there"
    text = {"tenfold": _OLD_TENFOLD, "no tenfold": _HIDES_TENFOLD}[what]
    (folder / "preload.py").write_text(text)
    told = {"tenfold": "tenfold 0.0.1 there", "no tenfold": "No module named 'tenfold"}[what]
    return cluster.worker("--preload", str(folder / "preload.py")), told


@pytest.mark.parametrize("what", ["numpy", "tenfold", "no tenfold"])
def test_a_node_that_differs_is_named(cluster: Cluster, tmp_path: Path, what: str) -> None:
    cluster.worker()
    other, told = _with_other(cluster, tmp_path / "other", what)
    with pytest.raises(errors.WorkersUnavailable, match=re.escape(told)) as caught:
        tenfold.map(lambda x: trace(tmp_path, x), range(20), engine=cluster.address)
    assert cluster.address_of(other) in str(caught.value)
    assert not traces(tmp_path), "a task has run"


def test_the_doctor_shows_seats_and_versions_of_each_node(cluster: Cluster, tmp_path: Path) -> None:
    one = cluster.worker(threads=3)
    two, told = _with_other(cluster, tmp_path / "other", "numpy")
    names = [cluster.address_of(worker) for worker in (one, two)]
    text = scripts.doctor(tmp_path, cluster.address.replace("tcp://", "dask://"))
    assert "2 nodes, 4 tasks of one core at once" in text
    seats = {line.split()[0]: line.split()[4] for line in text.splitlines() if "(this machine)" in line}
    assert seats == dict(zip(names, ("3", "1"), strict=True))
    assert told in next(line for line in text.splitlines() if line.startswith(names[1]) and "MB" in line)
    here, rows = facts.look(), [line.split() for line in text.splitlines()]
    order = next(row for row in rows if row[:2] == ["installed", "here"])[2:]
    assert ["Python", *[here.python] * 3] in rows
    assert ["tenfold", *[here.versions["tenfold"]] * 3] in rows
    theirs = {names[0]: here.versions["numpy"], names[1]: "1.2.3"}
    assert ["numpy", here.versions["numpy"], *(theirs[name] for name in order)] in rows


def test_a_node_that_differs_and_joins_late_is_given_no_work(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()

    def join() -> None:
        waiting.until(lambda: len(traces(tmp_path)) >= 1)
        _with_other(cluster, tmp_path / "other", "numpy")

    def work(x: int) -> int:
        trace(tmp_path, x)
        waiting.until(lambda: x < 20 or (tmp_path / "told").exists(), 20)
        return x

    thread = threading.Thread(target=join, daemon=True)
    thread.start()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")

        def tell() -> None:
            waiting.until(lambda: any("numpy 1.2.3 there" in str(warning.message) for warning in warned), 20)
            (tmp_path / "told").touch()

        watcher = threading.Thread(target=tell, daemon=True)
        watcher.start()
        results = tenfold.map(work, range(40), engine=cluster.address, progress=False)
        watcher.join()
    thread.join()
    assert list(results) == list(range(40))
    assert len({outcome.worker for outcome in results.outcomes}) == 1
