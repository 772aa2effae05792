"""What a worker has found out about programs, for the others."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from tenfold.fuse import notes
from tenfold.fuse.notes import Note, Notebook

TRAIN = {("train", 16): Note(b"key", (numpy.float32(0.5), numpy.arange(3)))}


def test_what_one_has_written_the_others_read(tmp_path: Path) -> None:
    Notebook(tmp_path).write(TRAIN, "a model")
    found = Notebook(tmp_path).read("a model")
    assert found.keys() == TRAIN.keys()
    key, (rate, numbers) = found["train", 16]
    assert (key, rate) == (b"key", 0.5)
    numpy.testing.assert_array_equal(numbers, numpy.arange(3))
    assert Notebook(tmp_path).read("another model") == {}


def test_other_versions_have_notes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(tmp_path).write(TRAIN, "a model")
    monkeypatch.setattr(notes, "version", lambda name: f"a later {name}")
    assert Notebook(tmp_path).read("a model") == {}


def test_notes_that_are_damaged_or_long_are_none(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    notebook.write({("train", 16): Note(b"key", (numpy.zeros(notes.LARGEST, numpy.int8), 1))}, "a model of data")
    assert not list(tmp_path.rglob("*"))
    notebook.write(TRAIN, "a model")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:9])
    assert notebook.read("a model") == {}
