"""`tenfold.prepare` under faults: the same call goes on, with the rows of a call that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import disks
import numpy
import pytest
import sets
from sets import X, counted, forget, prepare

import leftovers
import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.data import finishing, manifest, stores


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Any]:
    """The rows without and with a filter."""
    found = {}
    for filters in (False, True):
        folder = tmp_path_factory.mktemp("undisturbed")
        scripts.run(folder, sets.script(folder, seconds=0, filters=filters))
        found[filters] = sets.rows(folder)
    assert found[False].shape == (60, 3)
    assert found[True].shape == (40, 3)
    return found


# -- the caller -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("filters", [False, True], ids=["one to one", "filtered"])
def test_killed_at_random_moments_it_always_goes_on(filters: bool, undisturbed: Any, tmp_path: Path) -> None:
    text = sets.script(tmp_path, filters=filters, seconds=0.02, options="workers=2")
    moments, to, kills = random.Random(int(filters)), tmp_path / "set", 0
    while True:
        done, before = sets.committed(to) if to.exists() else set(), sets.calls(tmp_path)
        with scripts.started(tmp_path, text) as script:
            waiting.until(lambda: sets.calls(tmp_path) != before or script.process.poll() is not None)
            try:
                status = script.process.wait(moments.uniform(0.0, 0.25)) if kills < 3 else script.end().status
            except subprocess.TimeoutExpired:
                script.kill()
                status, kills = None, kills + 1
        after = sets.calls(tmp_path)
        assert {x: after[x] for x in done} == {x: before[x] for x in done}, "a committed sample was made again"
        if status is not None:
            break
        waiting.until(lambda: not leftovers.processes(), 5)
    assert status == 0, script.err
    assert kills >= 2
    assert numpy.array_equal(sets.rows(tmp_path), undisturbed[filters])
    assert sets.left(to) == []


def test_ctrl_c_keeps_what_was_made(undisturbed: Any, tmp_path: Path) -> None:
    text, to = sets.script(tmp_path, seconds=0.03, options="workers=2"), tmp_path / "set"
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(sets.calls(tmp_path)) >= 20 or script.process.poll() is not None)
        script.interrupt()
        ended = script.end(15)
    assert ended.status in (-signal.SIGINT, 1)
    assert "KeyboardInterrupt" in ended.err
    done, before = sets.committed(to), sets.calls(tmp_path)
    assert len(done) >= 10
    scripts.run(tmp_path, text)
    after = sets.calls(tmp_path)
    assert {x: after[x] for x in done} == {x: before[x] for x in done}
    assert numpy.array_equal(sets.rows(tmp_path), undisturbed[False])
    assert sets.left(to) == []


@pytest.mark.parametrize("engine", ["serial", "joblib"])
def test_another_engine_goes_on(engine: str, undisturbed: Any, tmp_path: Path) -> None:
    with scripts.started(tmp_path, sets.script(tmp_path, seconds=0.03)) as script:
        waiting.until(lambda: len(sets.calls(tmp_path)) >= 20 or script.process.poll() is not None)
        script.kill()
    done, before = sets.committed(tmp_path / "set"), sets.calls(tmp_path)
    # How long the work takes is part of the function, so that stays as it was.
    scripts.run(tmp_path, sets.script(tmp_path, seconds=0.03, options=f"engine={engine!r}, workers=2"))
    after = sets.calls(tmp_path)
    assert {x: after[x] for x in done} == {x: before[x] for x in done}
    assert numpy.array_equal(sets.rows(tmp_path), undisturbed[False])


def _killed(folder: Path, text: str, after: int = 25) -> tuple[set[int], dict[int, int]]:
    """Run a script, kill it when so many samples were begun; what it has committed, and how often each was made."""
    with scripts.started(folder, text) as script:
        waiting.until(lambda: len(sets.calls(folder)) >= after or script.process.poll() is not None)
        assert script.process.poll() is None, script.err
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 5)
    done = sets.committed(folder / "set")
    assert 10 <= len(done) < 60
    return done, sets.calls(folder)


def test_with_more_samples_what_was_made_is_used_again(tmp_path: Path) -> None:
    done, before = _killed(tmp_path, sets.script(tmp_path, seconds=0.03))
    assert scripts.run(tmp_path, sets.script(tmp_path, seconds=0.03, count=80)).out == "80\n"
    after = sets.calls(tmp_path)
    assert {x: after[x] for x in done} == {x: before[x] for x in done}
    assert len(after) == 80
    assert (abs(sets.rows(tmp_path) - numpy.arange(240.0).reshape(80, 3) * 2) <= 1).all()
    assert sets.left(tmp_path / "set") == []


def test_damage_between_a_kill_and_the_repeat_is_found(undisturbed: Any, tmp_path: Path) -> None:
    text = sets.script(tmp_path, seconds=0.03)
    done, before = _killed(tmp_path, text)
    (path,) = (tmp_path / "set").glob(".preparing-*/data.npy")
    damaged = sorted(done)[5]
    with open(path, "r+b") as file:
        file.seek(256 + damaged * 24)
        file.write(b"\xff" * 24)
    scripts.run(tmp_path, text)
    after = sets.calls(tmp_path)
    assert after[damaged] == before[damaged] + 1
    assert {x: after[x] for x in done - {damaged}} == {x: before[x] for x in done - {damaged}}
    assert (abs(sets.rows(tmp_path) - undisturbed[False]) <= 1).all()
    assert sets.left(tmp_path / "set") == []


@pytest.mark.parametrize("name", ["data.npy", "form.json", "parts/journal.sqlite"])
def test_garbage_between_a_kill_and_the_repeat_is_made_again(name: str, undisturbed: Any, tmp_path: Path) -> None:
    text = sets.script(tmp_path, seconds=0.03)
    _killed(tmp_path, text)
    (path,) = (tmp_path / "set").glob(f".preparing-*/{name}")
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.write_bytes(b"garbage" * 10)
    scripts.run(tmp_path, text)
    assert numpy.array_equal(sets.rows(tmp_path), undisturbed[False])
    assert sets.left(tmp_path / "set") == []


def test_a_set_stays_readable_while_it_is_made_afresh(undisturbed: Any, tmp_path: Path) -> None:
    plain, fresh = (sets.script(tmp_path, seconds=0.03, options=options) for options in ("", "fresh=True"))
    scripts.run(tmp_path, plain)
    forget(tmp_path)
    with scripts.started(tmp_path, fresh) as script:
        waiting.until(lambda: len(sets.calls(tmp_path)) >= 25 or script.process.poll() is not None)
        script.kill()
    assert numpy.array_equal(tenfold.Prepared.open(tmp_path / "set").numpy(), undisturbed[False])
    done, before = sets.committed(tmp_path / "set"), sets.calls(tmp_path)
    scripts.run(tmp_path, plain)
    after = sets.calls(tmp_path)
    assert len(after) == 60, "all of it was made again"
    assert {x: after[x] for x in done} == {x: before[x] for x in done}
    assert sets.left(tmp_path / "set") == []


def test_a_second_call_on_the_same_folder_is_told_so(tmp_path: Path) -> None:
    with scripts.started(tmp_path, sets.script(tmp_path, seconds=60)) as script:
        waiting.until(lambda: sets.calls(tmp_path) or script.process.poll() is not None)
        with pytest.raises(errors.RunUnusable, match=rf"to=.*set.* is in use by process {script.pid}"):
            prepare(counted(tmp_path), X, tmp_path / "set")
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 5)
    assert len(prepare(counted(tmp_path), X, tmp_path / "set")) == 300
    assert sets.left(tmp_path / "set") == []


# -- the end of a call ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stops a call between two steps, where nothing can catch it."""


class Steps:
    """Counts the steps of a call's end, and stops it before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = 1000
        self._is_end = False
        finish = finishing.finish

        def begin_the_end(*given: Any) -> None:
            self._is_end = True
            try:
                finish(*given)
            finally:
                self._is_end = False

        patch.setattr(finishing, "finish", begin_the_end)
        places = [
            (os, "replace"),
            (os, "link"),
            (finishing, "_remove"),
            (finishing.shutil, "rmtree"),
            (finishing.writing, "finish"),
            (finishing.stores, "convert"),
            (manifest.Manifest, "write"),
        ]
        for owner, name in places:
            patch.setattr(owner, name, self._stopping(getattr(owner, name)))

    def _stopping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stop_or_go(*given: Any, **options: Any) -> Any:
            self.left -= self._is_end
            if self.left < 0:
                raise Killed
            return step(*given, **options)

        return stop_or_go


def _old(row: Any) -> Any:
    return {"a": row, "data": row[0]}


def _new(row: Any) -> Any:
    if row[0] == 30:
        raise ValueError("a corrupt sample")
    return row + 1


@pytest.fixture
def _zarr_rests() -> Iterator[None]:
    """Zarr keeps a thread for as long as its process lives."""
    yield
    if "zarr" in sys.modules:
        from zarr.core.sync import cleanup_resources

        cleanup_resources()


@pytest.mark.usefixtures("_zarr_rests")
@pytest.mark.filterwarnings("ignore:1 of 20 samples failed")
@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_stopped_at_every_step_of_its_end(kind: stores.Format, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import shutil

    options: dict[str, Any] = {"engine": "serial", "format": kind, "batch": 10}
    x, copy, remove = X[:20], shutil.copytree, shutil.rmtree
    prepare(_old, x, tmp_path / "before", **options)
    steps, number = Steps(monkeypatch), 0
    while True:
        to = tmp_path / "set"
        copy(tmp_path / "before", to)
        steps.left = number
        try:
            prepare(_new, x, to, **options)
        except Killed:
            steps.left = 1000
        else:
            break
        copy(to, tmp_path / "other")
        found = prepare(_new, x, to, **options)
        assert numpy.array_equal(found.numpy(), numpy.delete(x, 10, 0) + 1), f"stopped at step {number}"
        assert not found.verify()
        files = {"data.npy"} if kind == "npy" else {"data.zarr"}
        assert {path.name for path in to.iterdir()} == {"manifest.json", "quarantine.jsonl", ".lock", ".run", *files}
        other = prepare(_old, x, tmp_path / "other", **options)
        assert numpy.array_equal(other.numpy()["a"], x), f"stopped at step {number}"
        assert numpy.array_equal(other.numpy()["data"], x[:, 0])
        assert not other.verify()
        files = {"a.npy", "data.npy"} if kind == "npy" else {"data.zarr"}
        there = {path.name for path in (tmp_path / "other").iterdir() if not path.name.startswith(".preparing-")}
        assert there == {"manifest.json", ".lock", ".run", *files}
        remove(to)
        remove(tmp_path / "other")
        number += 1
    assert number >= 8


# -- workers, disks, names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [300, 4100], ids=["parts of one", "parts of several"])
def test_a_worker_that_is_killed_costs_nothing(count: int, tmp_path: Path) -> None:
    x = numpy.arange(count * 3.0).reshape(count, 3)
    mark = tmp_path / "killed"

    def noisy(row: Any) -> Any:
        if row[0] == 300 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row + numpy.random.random(3)

    disturbed = prepare(noisy, x, tmp_path / "disturbed").numpy()
    assert numpy.array_equal(disturbed, prepare(noisy, x, tmp_path / "quiet").numpy())
    assert mark.exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[disks.Disk]:
    with disks.small(tmp_path / "disk", "2m") as found:
        yield found


@pytest.mark.parametrize("filters", [False, True], ids=["one to one", "filtered"])
def test_a_disk_that_fills_up(filters: bool, disk: disks.Disk, tmp_path: Path) -> None:
    double = counted(tmp_path)

    def large(row: Any) -> Any:
        found = double(row)
        return None if filters and row[0] % 2 else numpy.tile(found, 400)

    to = disk.path / "set"
    with pytest.raises((errors.TasksFailed, errors.RunUnusable), match=r"No space left|full|cannot be used"):
        prepare(large, X, to)
    done, before = sets.committed(to), sets.calls(tmp_path)
    assert len(done) >= 20
    disk.grow("60m")
    found = prepare(large, X, to)
    kept = X[X[:, 0] % 2 == 0] if filters else X
    assert numpy.array_equal(found.numpy(), numpy.tile(kept * 2, (1, 400)))
    after = sets.calls(tmp_path)
    assert {x: after[x] for x in done} == {x: before[x] for x in done}
    assert sets.left(to) == []


def test_a_disk_that_cannot_be_written(disk: disks.Disk, tmp_path: Path) -> None:
    prepare(counted(tmp_path), X, disk.path / "set")
    disk.protect()
    assert len(prepare(counted(tmp_path), X, disk.path / "set")) == 300, "what is made can be read"
    with pytest.raises(errors.RunUnusable, match="Read-only"):
        prepare(counted(tmp_path), X[:5], disk.path / "set")
