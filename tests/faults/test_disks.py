"""The disk under the journal is full, or cannot be written: a clear error, and what was finished is kept."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import disks
import endings
import numpy
import pytest

import scripts
import tenfold
from tenfold import errors


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[disks.Disk]:
    with disks.small(tmp_path / "disk", "1m") as found:
        yield found


def _make(folder: Path, kilobytes: int) -> Callable[[int], Any]:
    def make(x: int) -> Any:
        time.sleep(kilobytes / 1500)  # the work: outcomes that come together are committed together
        with open(folder / f"ended {x}", "a") as file:
            file.write("x\n")
        return numpy.full(kilobytes * 128, x)

    return make


@pytest.mark.parametrize("engine", ["local", "serial"])
@pytest.mark.parametrize(("kilobytes", "count"), [(1, 1200), (40, 40), (300, 8)], ids=["rows", "large rows", "files"])
def test_a_disk_that_fills_up(disk: disks.Disk, engine: str, kilobytes: int, count: int, tmp_path: Path) -> None:
    def call() -> Any:
        make = _make(tmp_path, kilobytes)
        return tenfold.map(make, range(count), engine=engine, workers=2, run=disk.path / "run")

    with pytest.raises(errors.RunUnusable) as caught:
        call()
    assert isinstance(caught.value, OSError)
    assert str(disk.path) in str(caught.value)
    assert any(word in str(caught.value).lower() for word in ("full", "space"))
    kept, before = endings.committed(disk.path / "run"), endings.runs(tmp_path, count)
    assert len(kept) >= 2
    disk.grow("60m")
    results = call()
    assert all((results[x] == x).all() and results[x].nbytes == kilobytes * 1024 for x in range(count))
    after = endings.runs(tmp_path, count)
    assert {x: after[x] for x in kept} == {x: before[x] for x in kept}


def test_a_disk_that_is_full_from_the_start(disk: disks.Disk, tmp_path: Path) -> None:
    disk.fill()
    with pytest.raises(errors.RunUnusable, match="run="):
        tenfold.map(_make(tmp_path, 1), range(3), run=disk.path / "run")
    assert endings.runs(tmp_path, 3) == {0: 0, 1: 0, 2: 0}
    disk.free()
    assert len(tenfold.map(_make(tmp_path, 1), range(3), run=disk.path / "run")) == 3


def test_a_disk_that_is_full_when_a_run_is_continued(disk: disks.Disk, tmp_path: Path) -> None:
    make = _make(tmp_path, 1)
    tenfold.map(make, range(3), run=disk.path / "run")
    disk.fill()
    with pytest.raises(errors.RunUnusable):
        tenfold.map(make, range(3), run=disk.path / "run")
    disk.free()
    assert [array[0] for array in tenfold.map(make, range(3), run=disk.path / "run")] == [0, 1, 2]
    assert endings.runs(tmp_path, 3) == {0: 1, 1: 1, 2: 1}


def test_a_disk_that_is_read_only(disk: disks.Disk, tmp_path: Path) -> None:
    make = _make(tmp_path, 1)
    tenfold.map(make, range(3), run=disk.path / "run")
    disk.protect()
    for folder in ("run", "another"):
        with pytest.raises(errors.RunUnusable, match=r"[Rr]ead-only"):
            tenfold.map(make, range(4), run=disk.path / folder)
    assert endings.runs(tmp_path, 4) == {0: 1, 1: 1, 2: 1, 3: 0}


def test_a_full_disk_under_a_tasks_folder_is_the_tasks_failure(disk: disks.Disk) -> None:
    def fill(x: int) -> int:
        if x == 1:
            with open(tenfold.here().folder / "checkpoint", "wb") as file:
                file.write(bytes(8 << 20))
        return x

    def tidy(x: int) -> int:
        (tenfold.here().folder / "checkpoint").unlink(missing_ok=True)
        return x

    def fill_and_tidy(x: int) -> int:
        try:
            return fill(x)
        except OSError:
            tidy(x)
            raise

    results = tenfold.map(fill_and_tidy, range(3), on_error="collect", run=disk.path / "run", workers=1)
    assert results[0] == 0
    assert results[2] == 2
    assert results[1].__cause__.errno == errno.ENOSPC


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """What a quota does; needs no disk of its own. It holds for shared memory too, so no other process takes part."""
    text = """
        import pathlib, resource, time
        import tenfold

        def make(x):
            with open(pathlib.Path({folder!r}) / f"ended {{x}}", "a") as file:
                file.write("x\\n")
            time.sleep(0.005)  # the work
            return bytes([x]) * 10_000

        if {limit}:
            resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
        try:
            print(len(list(tenfold.map(make, range(100), run={run!r}, engine="serial"))))
        except tenfold.TenfoldError as error:
            print(type(error).__name__)
    """
    run = str(tmp_path / "run")
    limited = scripts.run(tmp_path, text.format(folder=str(tmp_path), run=run, limit=300_000))
    assert limited.out == "RunUnusable\n"
    kept = endings.committed(tmp_path / "run")
    assert 1 <= len(kept) < 100
    free = scripts.run(tmp_path, text.format(folder=str(tmp_path), run=run, limit=0))
    assert free.out == "100\n"
    assert all(count == 1 for x, count in endings.runs(tmp_path, 100).items() if x in kept)
