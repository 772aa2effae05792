"""Folders, files and names of prepared sets that are not as they should be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import sets
from sets import X, counted, forget, prepare

import tenfold
from tenfold import errors


def test_a_relative_name_and_a_link_are_the_same_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    double = counted(tmp_path)
    first = prepare(double, X, Path("set"))
    assert first.folder == tmp_path / "set"
    os.symlink(tmp_path / "set", tmp_path / "link")
    forget(tmp_path)
    assert numpy.array_equal(prepare(double, X, tmp_path / "link").numpy(), X * 2)
    assert sets.calls(tmp_path) == {}
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    with pytest.raises(errors.RunUnusable, match="dangling"):
        prepare(double, X, tmp_path / "dangling")


def test_files_that_are_gone_are_made_again(tmp_path: Path) -> None:
    double = counted(tmp_path)
    prepare(double, X, tmp_path / "set")
    (tmp_path / "set" / "data.npy").unlink()
    assert numpy.array_equal(prepare(double, X, tmp_path / "set").numpy(), X * 2)
    assert set(sets.calls(tmp_path).values()) == {2}


def test_damage_that_nobody_has_looked_for_is_not_used_again(tmp_path: Path) -> None:
    def stream(count: int) -> Iterator[float]:
        return (float(x) for x in range(count))

    prepare(abs, stream(500), tmp_path / "set")
    with open(tmp_path / "set" / "data.npy", "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\0" * 8)
    assert list(prepare(abs, stream(500), tmp_path / "set").numpy()) == list(range(500))


def test_rows_of_no_bytes_and_columns_that_differ_by_case(tmp_path: Path) -> None:
    for kind in ("npy", "parquet"):
        found = prepare(lambda row: {"A": row[:0], "a": row}, X, tmp_path / kind, format=kind)
        assert found.numpy()["A"].shape == (300, 0)
        assert numpy.array_equal(found.numpy()["a"], X)
        assert found.verify() == []


@pytest.mark.parametrize("content", ['{"name": "web"}', "[1, 2]", "not JSON", "\xff"])
def test_a_manifest_of_another_program_is_none_of_ours(content: str, tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("L", (2, 2), 7).save(folder / "one.png")
    (folder / "manifest.json").write_text(content, "latin-1")
    for fresh in (False, True):
        with pytest.raises(tenfold.BadCall, match=r"not a prepared set: manifest\.json, one\.png"):
            prepare(abs, X, folder, fresh=fresh, engine="serial")
    made = prepare(lambda image: image[0, 0], folder, tmp_path / "set", engine="serial")
    assert made.numpy().tolist() == [7]
    assert (folder / "manifest.json").read_text("latin-1") == content


def test_a_manifest_of_ours_that_is_damaged_is_said_to_be_and_made_anew(tmp_path: Path) -> None:
    to = tmp_path / "set"
    prepare(abs, X, to, engine="serial")
    whole = (to / "manifest.json").read_text()
    for content, text in (
        (whole[:50], "is not a manifest that can be read"),
        (whole.replace('"version": 1', '"version": 9'), "9"),
    ):
        (to / "manifest.json").write_text(content)
        for call in (tenfold.Prepared.open, lambda folder: prepare(abs, X, folder)):
            with pytest.raises(tenfold.BadCall, match=text):
                call(to)
    assert numpy.array_equal(prepare(abs, X, to, fresh=True, engine="serial").numpy(), X)


@pytest.mark.parametrize("name", ["a/b", "a\0b", ".a", "", "a" * 300])
def test_what_cannot_be_a_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(errors.TasksFailed, match="cannot be the name of a column"):
        prepare(lambda row: {name: row}, X, tmp_path / "set", engine="serial")
    with pytest.raises(tenfold.BadCall, match="expected the name of a folder"):
        prepare(abs, X, "a\0b")  # type: ignore[arg-type]
