"""Faults as inputs: a full disk, a journal that is garbage, files that are gone. What was committed stays readable."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import scripts
from tenfold.errors import RunUnusable
from tenfold.journal.folder import Folder
from tenfold.journal.store import Block, Journal
from tenfold.work import parcel
from tenfold.work.outcome import Unopened

WRITE_UNTIL_FULL = """
    import json, sys
    import numpy as np
    from tenfold.errors import RunUnusable
    from tenfold.journal.folder import Folder
    from tenfold.journal.store import Block, Journal
    from tenfold.work import parcel

    {prelude}
    folder = Folder({folder!r})
    folder.prepare()
    journal = Journal(folder)
    committed, error = [], None
    try:
        for first in range(10_000):
            block = Block(first, [0.1], 0, 0, "host:1", 1, [first])
            if {large} and first % 5 == 4:
                journal.add_large(block, parcel.pack(np.full(20_000, first, np.float64)).to_bytes())
            else:
                journal.add_values(block, [parcel.pack(bytes(2000) + first.to_bytes(4, "big")).body])
            journal.commit()
            committed.append(first)
    except RunUnusable as trouble:
        error = str(trouble)
    journal.close()
    print(json.dumps([committed, error]))
"""


def write_until_full(tmp_path: Path, run: Path, *, prelude: str = "", large: bool = False) -> tuple[list[int], str]:
    import json

    text = WRITE_UNTIL_FULL.format(folder=str(run), prelude=prelude, large=large)
    committed, error = json.loads(scripts.run(tmp_path, text).out.splitlines()[-1])
    assert error is not None, "the disk was never full"
    return committed, error


def is_whole(run: Path, committed: list[int], *, large: bool) -> None:
    journal = Journal(Folder(run), read_only=True)
    found = {outcome.index: outcome.value for outcome in journal.outcomes()}
    journal.close()
    assert set(committed) <= set(found)
    assert len(found) <= len(committed) + 1
    for first, value in found.items():
        if large and first % 5 == 4:
            assert np.array_equal(value, np.full(20_000, first))
        else:
            assert value == bytes(2000) + first.to_bytes(4, "big")


@pytest.mark.parametrize("large", [False, True], ids=["small values", "large values"])
def test_a_file_that_may_not_grow(tmp_path: Path, large: bool) -> None:
    most = 130_000 if large else 300_000
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
    committed, error = write_until_full(tmp_path, tmp_path / "run", prelude=limit, large=large)
    assert len(committed) > 2
    assert str(tmp_path / "run") in error
    assert "What was committed is kept" in error
    is_whole(tmp_path / "run", committed, large=large)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 700 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here, and RLIMIT_FSIZE is tried instead: {done.stderr.strip()}")
    try:
        yield place
    finally:
        # Lazily: a test that fails keeps its files open, and nothing may stay mounted in a folder that pytest removes.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("large", [False, True], ids=["small values", "large values"])
def test_a_full_disk(tmp_path: Path, tiny_disk: Path, large: bool) -> None:
    committed, error = write_until_full(tmp_path, tiny_disk / "run", large=large)
    assert len(committed) > 2
    assert "What was committed is kept" in error
    assert not list((tiny_disk / "run").rglob("*.partial"))  # half a value would keep the disk full
    is_whole(tiny_disk / "run", committed, large=large)


def test_a_run_goes_on_when_there_is_room_again(tmp_path: Path, tiny_disk: Path) -> None:
    filler = tiny_disk / "filler"
    filler.write_bytes(bytes(400_000))
    committed, _ = write_until_full(tmp_path, tiny_disk / "run")
    filler.unlink()
    journal = Journal(Folder(tiny_disk / "run"))
    first = len(committed) + 1
    journal.add_values(Block(first, [0.1], 0, 0, "host:1", 1, [first]), [parcel.pack("more").body])
    journal.commit()
    assert journal.block(first)[0].value == "more"
    assert journal.counts()[0] >= len(committed) + 1
    journal.close()


# -- what is there is not what was written ----------------------------------------------------------------------------


def filled(tmp_path: Path, count: int = 200) -> Folder:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    journal = Journal(folder)
    for first in range(count):
        journal.add_values(Block(first, [0.1], 0, 0, "host:1", 1, [first]), [parcel.pack(bytes(3000)).body])
    journal.add_large(Block(count, [0.1], 0, 0, "host:1", 1, [count]), parcel.pack(np.zeros(50_000)).to_bytes())
    journal.commit()
    journal.close()
    return folder


@pytest.mark.parametrize("content", [b"", b"this is no database" * 100], ids=["empty", "text"])
def test_a_journal_that_is_none_is_not_read(tmp_path: Path, content: bytes) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    folder.journal.write_bytes(content)
    with pytest.raises(RunUnusable, match="cannot be used"):
        Journal(folder, read_only=True)


def test_a_text_in_the_place_of_a_journal_is_not_overwritten(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    folder.journal.write_bytes(b"this is no database" * 100)
    with pytest.raises(RunUnusable, match="cannot be used"):
        Journal(folder)
    assert folder.journal.read_bytes() == b"this is no database" * 100


def test_a_journal_that_was_damaged(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    size = folder.journal.stat().st_size
    with open(folder.journal, "r+b") as file:
        file.seek(size // 4)
        file.write(os.urandom(size // 2))
    journal = Journal(folder, read_only=True)
    with pytest.raises(RunUnusable):
        list(journal.outcomes())
    journal.close()


def test_a_value_whose_file_is_gone(tmp_path: Path) -> None:
    folder = filled(tmp_path, 3)
    next(folder.values.iterdir()).unlink()
    journal = Journal(folder, read_only=True)
    assert journal.block(2)[0].value == bytes(3000)
    with pytest.raises(RunUnusable, match=r"000003\.parcel"):
        journal.block(3)
    journal.close()


@pytest.mark.parametrize("size", [0, 3, 100, 200_000])
def test_a_value_whose_file_was_cut_off(tmp_path: Path, size: int) -> None:
    """It is said that it cannot be opened; what is around it can be read."""
    folder = filled(tmp_path, 3)
    os.truncate(next(folder.values.iterdir()), size)
    journal = Journal(folder, read_only=True)
    values = [outcome.value for outcome in journal.outcomes()]
    journal.close()
    assert values[:3] == [bytes(3000)] * 3
    assert isinstance(values[3], Unopened)


def test_a_value_whose_class_is_missing_here(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    journal = Journal(folder)
    missing = b"cno_such_module\nModel\n."
    journal.add_values(Block(0, [0.1], 0, 0, "host:1", 1, ["first"]), [missing])
    journal.add_values(Block(1, [0.1], 0, 0, "host:1", 1, ["second"]), [parcel.pack("fine").body])
    first, second = journal.outcomes()
    journal.close()
    assert isinstance(first.value, Unopened)
    assert "no_such_module" in first.value.reason
    assert (first.ok, first.item, second.value) == (True, "first", "fine")
