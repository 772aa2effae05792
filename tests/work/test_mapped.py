"""NumPy memmaps travel by their file's name, slices and views of them too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scripts
from tenfold.work import parcel

SHAPE = (400, 300)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.npy"
    np.save(path, np.arange(SHAPE[0] * SHAPE[1], dtype=np.float64).reshape(SHAPE))
    return path


def there_and_back(value: Any) -> Any:
    packed = parcel.pack(value)
    return parcel.unpack(bytearray(packed.to_bytes()))


def travels_by_name(value: Any) -> bool:
    packed = parcel.pack(value)
    return packed.size < 2000 and not packed.buffers


VIEWS = {
    "whole": lambda m: m,
    "rows": lambda m: m[10:390],
    "a row": lambda m: m[7],
    "the last element": lambda m: m[-1:, -1:],
    "every third": lambda m: m[::3],
    "columns": lambda m: m[:, 5:9],
    "backwards": lambda m: m[::-1, ::-2],
    "transposed": lambda m: m.T,
    "a slice of a slice": lambda m: m[20:300][::2, 3:][5:50],
    "a new shape": lambda m: m.reshape(300, 400),
    "as bytes": lambda m: m.view(np.uint8),
    "nothing": lambda m: m[5:5],
    "nothing, by steps": lambda m: m[::2][0:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_memmaps_and_their_views(file: Path, name: str) -> None:
    view = VIEWS[name](np.load(file, mmap_mode="r"))
    again = there_and_back(view)
    assert travels_by_name(view)
    assert again.dtype == view.dtype
    assert again.shape == view.shape
    assert np.array_equal(again, view)


@pytest.mark.parametrize("offset", [0, 8, 4096, 5000 * 8])
def test_a_raw_file_from_an_offset(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "raw.bin"
    np.arange(20_000, dtype=np.int64).tofile(path)
    mapped = np.memmap(path, np.int64, mode="r", offset=offset)
    for view in (mapped, mapped[100:10_000:7], mapped[::-1]):
        assert travels_by_name(view)
        assert np.array_equal(there_and_back(view), view)


def test_records_and_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "records.npy"
    records = np.zeros(5000, dtype=[("id", "i4"), ("x", "f8")])
    records["id"], records["x"] = np.arange(5000), np.linspace(0, 1, 5000)
    np.save(path, records)
    mapped = np.load(path, mmap_mode="r")
    for view in (mapped, mapped["x"], mapped[3:900:2]["id"]):
        assert travels_by_name(view)
        assert np.array_equal(there_and_back(view), view)


def test_inside_of_other_values(file: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    again = there_and_back({"train": (mapped[:300], mapped[300:]), "n": 3})
    assert np.array_equal(again["train"][1], mapped[300:])
    assert travels_by_name([mapped, {"again": mapped}])


def test_closed_over_by_a_function(file: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    packed = parcel.pack_function(lambda row: mapped[row].sum())
    assert packed.size < 3000
    assert parcel.unpack(packed.to_bytes())(4) == mapped[4].sum()


def test_a_change_through_r_plus_is_seen(file: Path) -> None:
    mapped = np.load(file, mmap_mode="r+")
    mapped[3] = -1
    assert travels_by_name(mapped)
    assert np.array_equal(there_and_back(mapped[2:5]), mapped[2:5])
    assert there_and_back(mapped)[3, 0] == -1


def test_changes_that_are_in_no_file_travel_with_it(file: Path) -> None:
    """A copy-on-write map: its file does not have what was written to it."""
    mapped = np.load(file, mmap_mode="c")
    mapped[0] = 99
    again = there_and_back(mapped)
    assert np.array_equal(again, mapped)
    assert again[0, 0] == 99
    assert np.load(file)[0, 0] == 0


def test_a_freshly_written_map(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "new.bin", np.float32, mode="w+", shape=(200, 200))
    mapped[:] = 5
    assert np.array_equal(there_and_back(mapped), mapped)


@pytest.mark.parametrize("compute", [lambda m: m + 1, lambda m: m[[3, 1]], lambda m: m[m > 5], lambda m: m.copy()])
def test_what_is_computed_from_a_map_has_no_file(file: Path, compute: Any) -> None:
    value = compute(np.load(file, mmap_mode="r"))
    assert np.array_equal(there_and_back(value), value)


def test_a_single_number_out_of_a_map(file: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    assert there_and_back(mapped[3, 4]) == mapped[3, 4]
    assert there_and_back(mapped.sum()) == mapped.sum()


def test_the_file_is_removed_before_it_travels(file: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    expected = np.array(mapped)
    os.unlink(file)
    assert np.array_equal(there_and_back(mapped), expected)


def test_a_relative_name_is_found_from_another_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    packed = parcel.pack(np.load(file.name, mmap_mode="r")).to_bytes()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert parcel.unpack(packed).shape == SHAPE


def test_another_interpreter_maps_the_same_file(file: Path, tmp_path: Path) -> None:
    mapped = np.load(file, mmap_mode="r")
    with open(tmp_path / "parcel", "wb") as out:
        parcel.pack(mapped[5:20, ::2]).write(out)
    ended = scripts.run(
        tmp_path,
        """
        from pathlib import Path
        from tenfold.work import parcel
        array = parcel.unpack(Path("parcel").read_bytes())
        maps = Path("/proc/self/maps").read_text()
        print(array.sum(), "numbers.npy" in maps)
        """,
    )
    assert ended.out.split() == [str(mapped[5:20, ::2].sum()), "True"]
