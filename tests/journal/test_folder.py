"""The folder of a run: made for its owner, held by one process, refused where it cannot be used."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import scripts
import waiting
from tenfold.errors import RunUnusable
from tenfold.journal.folder import JOURNAL, Folder, is_run

HOLDER = """
    import pathlib, signal, sys
    from tenfold.journal.folder import Folder
    folder = Folder("run")
    folder.prepare()
    with folder.locked():
        pathlib.Path("held").write_text("yes")
        signal.pause()
"""


def test_making_the_object_touches_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "runs" / "linear")
    assert folder.path == tmp_path / "runs" / "linear"
    assert list(tmp_path.iterdir()) == []


def test_a_relative_name_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder("run")
    monkeypatch.chdir("/")
    folder.prepare()
    assert (tmp_path / "run" / "lock").exists()


@pytest.mark.parametrize(
    "name", ["run", "a/b/c", "with space", "l\N{LATIN SMALL LETTER U WITH DIAERESIS}ge", "a%b?c#d"]
)
def test_it_is_made_with_its_parents(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / name)
    folder.prepare()
    folder.prepare()  # twice is no trouble
    assert folder.values.is_dir()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not is_run(folder.path)
    folder.journal.touch()
    assert is_run(folder.path)
    assert folder.journal.name == JOURNAL


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RunUnusable, match="is a file"):
        Folder(tmp_path / "run").prepare()


def test_a_file_above_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunUnusable, match=re.escape(str(tmp_path / "file" / "run"))):
        Folder(tmp_path / "file" / "run").prepare()


def test_a_place_where_nothing_can_be_made() -> None:
    """Not even by root."""
    with pytest.raises(RunUnusable, match="cannot be used"):
        Folder("/proc/no-run-here").prepare()


# -- held by one ------------------------------------------------------------------------------------------------------


def test_held_by_another_process(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    with scripts.started(tmp_path, HOLDER) as holder:
        waiting.for_file(tmp_path / "held")
        with pytest.raises(RunUnusable, match=f"is in use by process {holder.pid};"), folder.locked():
            pass
        holder.kill()  # the kernel lets go, however a process ends
        with folder.locked():
            assert (folder.path / "lock").read_text() == str(os.getpid())


def test_held_twice_in_one_process(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    with (
        folder.locked(),
        pytest.raises(RunUnusable, match=f"in use by process {os.getpid()};"),
        Folder(folder.path).locked(),
    ):
        pass
    with folder.locked():
        pass


def test_let_go_after_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    with pytest.raises(ZeroDivisionError), folder.locked():
        raise ZeroDivisionError
    with folder.locked():
        pass


def test_a_shorter_process_id_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    (folder.path / "lock").write_text("12345678901234567890")
    with folder.locked():
        assert (folder.path / "lock").read_text() == str(os.getpid())
