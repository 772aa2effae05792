"""Files: no more of them is read than is asked for, a corrupt sample is alone, and one more file changes one part."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tenfold.data.chained import Chained
from tenfold.data.listed import Listed, cut_every
from tenfold.data.opening import source
from tenfold.data.source import PARTS, Part, Source
from tenfold.errors import SampleUnreadable

ROWS = 400_000
WIDTH = 10
SIZE = ROWS * WIDTH * 8  # 32 MB
LITTLE = 3 << 20  # a block or a row group, and what libraries look at besides


@pytest.fixture(scope="module", autouse=True)
def threads_that_stay(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Zarr and pyarrow start theirs once."""
    folder = tmp_path_factory.mktemp("threads")
    import zarr

    zarr.create_array(folder / "x.zarr", data=np.arange(100), chunks=(1,))
    source(folder / "x.zarr").read(0, 100)
    (folder / "x.csv").write_text("a\n1\n")
    source(folder / "x.csv").read(0, 1)


@pytest.fixture(scope="module")
def numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH))


def npy(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    np.save(path / "x.npy", numbers)
    return "x.npy"


def npz(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    np.savez(path / "x.npz", x=numbers)
    return "x.npz"


def zarr(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    import zarr

    zarr.create_array(path / "x.zarr", data=numbers, chunks=(2_000, WIDTH))
    return "x.zarr"


def hdf5(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    import h5py

    with h5py.File(path / "x.h5", "w") as file:
        file["x"] = numbers
    return "x.h5"


def hdf5_chunked(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    import h5py

    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("x", data=numbers, chunks=(2_000, WIDTH), compression="gzip", compression_opts=1)
    return "x.h5"


def table(numbers: np.ndarray[Any, Any]) -> Any:
    import pyarrow as pa

    return pa.table({f"c{place}": column for place, column in enumerate(numbers.T)})


def parquet(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table(numbers), path / "x.parquet", row_group_size=10_000)
    return "x.parquet"


def csv(path: Path, numbers: np.ndarray[Any, Any]) -> str:
    import pyarrow.csv

    pyarrow.csv.write_csv(table(numbers), path / "x.csv")
    return "x.csv"


def first_column(rows: Any) -> np.ndarray[Any, Any]:
    if isinstance(rows, dict):
        return rows["c0"] if "c0" in rows else rows["x"][:, 0]
    return np.asarray(rows[:, 0])


def characters_read() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"])


@pytest.mark.parametrize("write", [npy, npz, zarr, hdf5, hdf5_chunked, parquet, csv])
def test_the_rest_is_not_loaded(
    write: Callable[[Path, Any], str], tmp_path: Path, numbers: np.ndarray[Any, Any]
) -> None:
    path = tmp_path / write(tmp_path, numbers)
    before = characters_read()
    found = source(path)
    if write is not csv:  # which the caller looks through once, for the ends of its lines
        assert characters_read() - before < LITTLE
    before = characters_read()
    tracemalloc.start()
    try:
        rows = found.read(ROWS // 2, ROWS // 2 + 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(first_column(rows), numbers[ROWS // 2 : ROWS // 2 + 10, 0])
    assert characters_read() - before < LITTLE
    assert peak < LITTLE < SIZE / 10


def test_an_array_larger_than_memory(tmp_path: Path) -> None:
    large = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (10**10, 8))  # 640 GB, sparse
    large[10**9] = np.arange(8)
    del large
    found = source(tmp_path / "x.npy")
    assert found.length == 10**10
    np.testing.assert_array_equal(found.read(10**9, 10**9 + 2), [np.arange(8), np.zeros(8)])


@pytest.mark.parametrize("chunks", [None, (64, 8), (10_000, 8)])
def test_a_dataset_larger_than_memory(chunks: tuple[int, int] | None, tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        large = file.create_dataset("x", (10**10, 8), np.float64, chunks=chunks)  # nothing is written yet
        if chunks:
            large[10**9] = np.arange(8)
    found = source(tmp_path / "x.h5")
    assert found.length == 10**10
    rows = found.read(10**9, 10**9 + 2)["x"]
    np.testing.assert_array_equal(rows, [np.arange(8) if chunks else np.zeros(8), np.zeros(8)])


def test_a_chunk_is_decoded_once(tmp_path: Path, numbers: np.ndarray[Any, Any]) -> None:
    found = source(tmp_path / hdf5_chunked(tmp_path, numbers))
    found.read(0, 10)
    before = characters_read()
    np.testing.assert_array_equal(found.read(1_500, 1_510)["x"], numbers[1_500:1_510])
    assert characters_read() - before < 10_000


def test_looking_through_a_csv_file_needs_little_memory(tmp_path: Path, numbers: np.ndarray[Any, Any]) -> None:
    path = tmp_path / csv(tmp_path, numbers)
    tracemalloc.start()
    try:
        assert source(path).length == ROWS
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 2


def test_a_compressed_member_is_loaded_once(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(1_000, 100)))
    found = source(tmp_path / "x.npz")
    assert "compressed: each process loads all of them, once" in found.describe()
    found.read(0, 1)
    before = characters_read()
    found.read(500, 510)
    assert characters_read() - before < 10_000


def test_only_the_chunks_that_are_needed_are_computed() -> None:
    import dask.array

    computed = []

    def block(block_info: Any = None) -> np.ndarray[Any, Any]:
        computed.append(block_info[None]["chunk-location"][0])
        return np.full((10, 2), computed[-1])

    value = dask.array.map_blocks(block, chunks=((10,) * 8, (2,)), dtype=int, meta=np.empty((0, 2), int))
    found = source(value)
    computed.clear()
    np.testing.assert_array_equal(found.read(35, 45)[:, 0], [3] * 5 + [4] * 5)
    assert computed == [3, 4]
    found.read(42, 48)  # of the one that was computed last
    assert computed == [3, 4]


# --- one bad sample


def assert_only_bad(found: Source, bad: int, message: str) -> None:
    assert found.length is not None
    with pytest.raises(SampleUnreadable, match=message):
        found.read(0, found.length)
    for number in range(found.length):
        if number == bad:
            with pytest.raises(SampleUnreadable, match=message):
                found.read(number, number + 1)
        else:
            found.read(number, number + 1)


def test_a_corrupt_image_is_alone(tmp_path: Path) -> None:
    for number in range(5):
        Image.fromarray(np.full((40, 40), number, np.uint8)).save(tmp_path / f"{number}.png")
    whole = (tmp_path / "2.png").read_bytes()
    (tmp_path / "2.png").write_bytes(whole[: len(whole) // 2])
    assert_only_bad(source(tmp_path), 2, r"2\.png: cannot be read as an image")


def test_an_image_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_text("hello")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "1.png")
    assert_only_bad(source(tmp_path), 0, r"0\.jpg: cannot be read as an image")


@pytest.mark.parametrize(("mode", "shape"), [("1", ()), ("L", ()), ("P", (3,)), ("LA", (4,)), ("CMYK", (3,))])
def test_colours(mode: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    Image.new(mode, (5, 4)).save(tmp_path / "x.tiff")
    [found] = source(tmp_path / "x.tiff").read(0, 1)
    assert found.shape == (4, 5, *shape)
    assert found.dtype == np.uint8


def test_a_value_that_does_not_parse_is_alone(tmp_path: Path) -> None:
    lines = ["number,text", *[f'{number},"line\n{number}"' for number in range(200_000)]]
    lines[150_001] = "many,x"
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = source(tmp_path / "t.csv")
    assert found.length == 200_000
    for start, stop in ((149_990, 150_001), (150_000, 150_001), (100_000, 200_000)):
        with pytest.raises(SampleUnreadable, match=r"t\.csv: (in )?rows? \d+.*a value does not parse.*'many'"):
            found.read(start, stop)
    with pytest.raises(SampleUnreadable, match=r"t\.csv: row 150000, "):
        found.read(150_000, 150_001)
    assert found.read(149_999, 150_000)["text"][0] == "line\n149999"
    np.testing.assert_array_equal(found.read(150_001, 150_400)["number"], np.arange(150_001, 150_400))


def test_a_line_with_too_few_values_is_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 100_000 + "3\n" + "4,5\n" * 3)
    found = source(tmp_path / "t.csv")
    with pytest.raises(SampleUnreadable, match=r"t\.csv: row 100000, .*Expected 2 columns, got 1"):
        found.read(100_000, 100_001)
    assert found.read(100_001, 100_004)["b"].tolist() == [5, 5, 5]


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1_000))
    found = source(tmp_path / "x.npy")
    os.truncate(tmp_path / "x.npy", 200)
    for read in (found.read, found.view):
        with pytest.raises(SampleUnreadable, match=r"x\.npy: cannot be read, or has become shorter"):
            read(0, 1_000)


def test_whole_numbers_that_become_floats_far_below_are_floats_everywhere(tmp_path: Path) -> None:
    rows = [f"{number},{number},{number}" for number in range(120_000)]
    (tmp_path / "1.csv").write_text("\n".join(["a,b,c", *rows, "0.5,1,2", "1,,2"]))
    (tmp_path / "2.csv").write_text("a,b,c\n1,2,3\n4,5,many\n")
    for name in ("1.csv", "*.csv"):
        found = source(str(tmp_path / name))
        for start in (0, 119_999):
            kinds = {column: values.dtype.kind for column, values in found.read(start, start + 3).items()}
            assert kinds == {"a": "f", "b": "f", "c": "i"}
        assert found.read(120_000, 120_002)["a"].tolist() == [0.5, 1]
    assert found.read(120_002, 120_003)["a"].dtype.kind == "f"
    with pytest.raises(SampleUnreadable, match=r"2\.csv: row 1, .*'many'.* columns="):
        found.read(120_003, 120_004)


# --- parts of files


def keys(found: Source) -> list[str | None]:
    return [part.key for part in found.parts()]


def assert_one_changed(before: list[Any], after: list[Any], most: int = 2) -> None:
    assert len(set(after) - set(before)) <= most
    assert len(set(before) - set(after)) <= 1


def test_one_more_image_is_one_more_part(tmp_path: Path) -> None:
    for number in range(9):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(tmp_path / f"{number}.png")
    before = keys(source(tmp_path))
    assert len(before) == 9
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "4b.png")
    assert_one_changed(before, keys(source(tmp_path)), most=1)
    (tmp_path / "4b.png").unlink()
    assert keys(source(tmp_path)) == before
    (tmp_path / "moved").mkdir()
    assert keys(source(tmp_path.rename(tmp_path.with_name("elsewhere")))) == before


def test_folders_that_are_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    for name in ("photos", "real/deep"):
        (tmp_path / name).mkdir(parents=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / name / "a.png")
    (tmp_path / "photos/b").symlink_to("../real")
    (tmp_path / "photos/c").symlink_to("../real/deep")
    (tmp_path / "real/back").symlink_to("../photos")
    (tmp_path / "real/self").symlink_to(".")
    (tmp_path / "photos/gone").symlink_to("nowhere")
    (tmp_path / "photos/loop").symlink_to("loop")
    assert source(tmp_path / "photos").names == ["a.png", "b/deep/a.png", "c/a.png"]  # type: ignore[attr-defined]


def test_one_more_of_many_names_changes_one_part() -> None:
    names = [f"https://example.org/{number:06d}.jpg" for number in range(50_000)]
    before = keys(source(names))
    assert PARTS / 2 < len(before) < PARTS * 1.5
    assert_one_changed(before, keys(source([*names[:20_000], "https://example.org/new", *names[20_000:]])))
    assert_one_changed(before, keys(source([*names[:20_000], *names[20_001:]])), most=1)


def test_beside_labels_names_are_cut_by_their_names() -> None:
    names = [f"https://example.org/{number:05d}.jpg" for number in range(5_000)]
    labels = np.arange(5_000)
    before = keys(source((names, labels)))
    assert len(before) < 2_000
    without = keys(source((names[:2_000] + names[2_001:], np.delete(labels, 2_000))))
    assert_one_changed(before, without, most=1)


def test_labels_beside_an_array_do_not_say_where_it_is_cut(tmp_path: Path) -> None:
    """Of few names that come again and again, nearly none ends a part, or nearly all do."""
    (tmp_path / "cat").mkdir()
    for first in ("cat", str(tmp_path / "cat")):  # a text, and the name of something that is there
        for labels in ([first, "dog"] * 3_000, [first] * 6_000):
            parts = list(source((np.zeros((6_000, 4)), labels)).parts())
            assert PARTS / 2 < len(parts) < PARTS * 1.1


def test_what_many_names_become_is_not_held_at_once() -> None:
    names = [f"https://example.org/{number:06d}.jpg" for number in range(200_000)]
    assert max(part.stop - part.start for part in source(names).parts()) <= 256


def test_large_files_are_not_read_together() -> None:
    class Large(Listed):
        sample_bytes = 1 << 20
        read = describe = None  # type: ignore[assignment]

    found = Large([str(number) for number in range(30_000)], None)  # type: ignore[abstract]
    assert max(part.stop - part.start for part in found.parts()) <= 16


def test_how_many_files_a_part_has() -> None:
    assert [cut_every(count) for count in (1, 250, 251, 500, 501, 1_000_000)] == [1, 1, 2, 2, 4, 4096]


def test_one_more_file_of_a_table_leaves_the_parts_of_others(tmp_path: Path) -> None:
    def write(name: str, start: int, stop: int) -> None:
        lines = "\n".join(str(number) for number in range(start, stop))
        (tmp_path / name).write_text(f"a\n{lines}\n")

    write("1.csv", 0, 3_000)
    write("3.csv", 4_500, 7_500)
    pattern = str(tmp_path / "*.csv")
    before = keys(source(pattern))
    write("2.csv", 3_000, 4_500)
    found = source(pattern)
    assert isinstance(found, Chained)
    assert set(before) <= set(keys(found))
    assert found.read(2_999, 3_001)["a"].tolist() == [2_999, 3_000]
    parts: list[Part] = list(found.parts())
    assert parts[-1].stop == 7_500


def test_parts_of_bands_are_whole_bands(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(50_000), chunks=(7,))
    with h5py.File(tmp_path / "x.h5", "r") as file:
        parts = list(source(file["x"]).parts())
    assert all(part.start % 7 == 0 for part in parts)
    assert parts[-1].stop == 50_000
    assert len(parts) <= PARTS * 1.3


def test_a_view_lies_in_the_memory_of_the_last_one_only_when_nobody_has_that(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4000).reshape(1000, 4))
    found = source(tmp_path / "x.npy")

    def address(rows: Any) -> int:
        return int(rows.__array_interface__["data"][0])

    first = found.view(0, 100)
    second = found.view(100, 200)
    kept, place = first[3:5], address(second)
    del first, second
    third = found.view(200, 300)
    assert address(third) == place
    assert (kept[0, 0], third[0, 0]) == (12, 800)
    exported = third.__dlpack__()
    del third
    fourth = found.view(300, 400)
    assert address(fourth) != place, exported
