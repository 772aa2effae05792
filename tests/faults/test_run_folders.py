"""The folder of a run: strange names, the wrong things, in use, broken, somebody else's."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import endings
import pytest

import scripts
import tenfold
import waiting
from tenfold import errors


@pytest.mark.parametrize(
    "name",
    [
        "with spaces",
        'it\'s "quoted"',
        "new\nline",
        "ünïcödé 模型 🚀",
        "50%?#&=;",
        "-rf",
        "$HOME `id`",
        "back\\slash",
        "file:x",
    ],
)
def test_names_with_anything_in_them(name: str, tmp_path: Path) -> None:
    def keep(x: int) -> Any:
        import numpy

        (tenfold.here().folder / "file").write_text(str(x))
        return numpy.full(20_000, x)

    first = tenfold.map(keep, range(3), run=tmp_path / name)
    assert [int(array[0]) for array in first] == [0, 1, 2]
    again = tenfold.map(keep, range(3), run=str(tmp_path / name))
    assert [int(array[0]) for array in again] == [0, 1, 2]
    assert (tmp_path / name / "journal.sqlite").is_file()
    assert (tmp_path / name / "tasks" / "000002" / "file").read_text() == "2"
    assert os.listdir(tmp_path) == [name]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"latin-\xe9")
    with contextlib.suppress(errors.TenfoldError):  # a clear refusal will do
        assert tenfold.map(abs, [-1], run=tmp_path / name)[:] == [1]


def test_a_relative_path_is_where_the_call_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def wander(x: int) -> str:
        os.chdir("/")
        return str(tenfold.here().folder)

    results = tenfold.map(wander, range(2), run="runs/deep/down")
    assert results[:] == [str(tmp_path / "runs/deep/down/tasks" / f"{x:06d}") for x in range(2)]


def test_folders_above_are_made_and_only_the_owner_can_read_it(tmp_path: Path) -> None:
    tenfold.map(lambda x: bytearray(200_000), range(2), run=tmp_path / "a" / "b")
    for path in (tmp_path / "a" / "b", tmp_path / "a" / "b" / "values"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b" / "journal.sqlite").stat().st_mode) == 0o600


def _count(path: Path) -> Any:
    def count(x: int) -> int:
        with open(path, "a") as file:
            file.write("x")
        return x

    return count


@pytest.mark.parametrize("what", ["a file", "below a file", "/proc", "name too long", "a loop of links", "a pipe"])
def test_what_cannot_be_a_folder_is_refused_before_work(what: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    run = {
        "a file": file,
        "below a file": file / "run",
        "/proc": Path("/proc/run"),
        "name too long": tmp_path / ("x" * 300),
        "a loop of links": tmp_path / "loop",
        "a pipe": tmp_path / "pipe",
    }[what]
    with pytest.raises(errors.RunUnusable) as caught:
        tenfold.map(_count(tmp_path / "runs"), range(3), run=run)
    assert str(run)[:50] in str(caught.value)
    assert not (tmp_path / "runs").exists()
    assert file.read_text() == "precious"


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    tenfold.map(abs, [-1], run=tmp_path / "link")
    assert tenfold.map(abs, [-1], run=tmp_path / "real")[:] == [1]


# -- in use -----------------------------------------------------------------------------------------------------------


def test_in_use_by_another_process(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = endings.script(tmp_path, run=run, count=4, seconds=60)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: (tmp_path / "began").exists())
        with pytest.raises(errors.RunUnusable, match=f"in use by process {script.pid}"):
            tenfold.map(abs, range(4), run=run)
        with pytest.raises(errors.RunUnusable, match="in use"):
            tenfold.map(abs, range(4), run=run, fresh=True)
        assert script.process.poll() is None


def test_in_use_by_another_thread(tmp_path: Path) -> None:
    def wait(x: int) -> int:
        (tmp_path / "began").touch()
        waiting.until(lambda: (tmp_path / "end").exists(), 30)
        return x

    found: list[Any] = []
    other = threading.Thread(target=lambda: found.append(tenfold.map(wait, range(2), run=tmp_path / "run")[:]))
    other.start()
    waiting.until(lambda: (tmp_path / "began").exists())
    with pytest.raises(errors.RunUnusable, match="in use"):
        tenfold.map(wait, range(2), run=tmp_path / "run")
    (tmp_path / "end").touch()
    other.join()
    assert found == [[0, 1]]


def test_in_use_by_the_call_that_a_task_belongs_to(tmp_path: Path) -> None:
    run = tmp_path / "run"
    results = tenfold.map(lambda x: tenfold.map(abs, [x], run=run)[:], [1], run=run, on_error="collect")
    assert "in use" in str(results[0])


# -- broken, or not ours ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "a folder", "another database", "newer"])
def test_a_journal_that_is_no_journal(damage: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert tenfold.map(_count(tmp_path / "runs"), range(50), run=run)[:] == list(range(50))
    journal = run / "journal.sqlite"
    before = (tmp_path / "runs").read_text()
    if damage == "garbage":
        journal.write_bytes(os.urandom(20_000))
    elif damage == "empty":
        journal.write_bytes(b"")
    elif damage == "truncated":
        journal.write_bytes(journal.read_bytes()[:5000])
    elif damage == "a folder":
        journal.unlink()
        journal.mkdir()
    else:
        if damage == "another database":
            journal.unlink()
        database = sqlite3.connect(journal)
        statement = {
            "another database": "CREATE TABLE outcomes (mine TEXT)",
            "newer": "UPDATE meta SET value = '99' WHERE key = 'format'",
        }[damage]
        database.execute(statement)
        database.commit()
        database.close()
    if damage == "empty":  # a run that was killed before its journal had anything: it begins anew
        assert tenfold.map(_count(tmp_path / "runs"), range(50), run=run)[:] == list(range(50))
        return
    with pytest.raises(errors.RunUnusable) as caught:
        list(tenfold.map(_count(tmp_path / "runs"), range(50), run=run))
    assert str(run) in str(caught.value)
    assert (tmp_path / "runs").read_text() == before


def test_a_value_that_was_removed_is_named(tmp_path: Path) -> None:
    def make(x: int) -> Any:
        import numpy

        return numpy.full(300_000, x)

    results = tenfold.map(make, range(3), run=tmp_path / "run")
    (tmp_path / "run" / "values" / "000001.parcel").unlink()
    again = tenfold.map(make, range(3), run=tmp_path / "run")
    assert again[0][0] == 0
    with pytest.raises(errors.RunUnusable, match=r"000001\.parcel"):
        again[1]
    assert results[2][0] == 2


def test_fresh_starts_anew_and_only_a_run(tmp_path: Path) -> None:
    count = _count(tmp_path / "runs")
    tenfold.map(count, range(4), run=tmp_path / "run")
    tenfold.map(count, range(4), run=tmp_path / "run", fresh=True)
    assert (tmp_path / "runs").read_text() == "x" * 8
    tenfold.map(count, range(4), run=tmp_path / "run")
    assert (tmp_path / "runs").read_text() == "x" * 8


def test_fresh_on_a_folder_that_is_no_run_removes_nothing(tmp_path: Path) -> None:
    """`run="."` in a project that happens to have a folder called tasks."""
    for name in ("tasks", "values"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious.txt").write_text("mine")
    with contextlib.suppress(errors.TenfoldError):  # it may refuse
        tenfold.map(abs, [-1], run=tmp_path, fresh=True)
    assert (tmp_path / "tasks" / "precious.txt").read_text() == "mine"
    assert (tmp_path / "values" / "precious.txt").read_text() == "mine"
