"""What cannot be a source is refused before any work starts, with what it is and what is accepted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenfold.data.opening import source
from tenfold.data.source import Source
from tenfold.errors import BadCall, MissingPackage


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str | bytes = "") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def saved(name: str, array: Any, **options: Any) -> str:
    np.save(name, array, **options)
    return name


def archive(**arrays: Any) -> str:
    np.savez("a.npz", **arrays)
    return "a.npz"


def cut(name: str) -> str:
    whole = Path(name).read_bytes()
    return write(name, whole[:-40])


def parquet(name: str, **columns: Any) -> str:
    import pyarrow as pa
    import pyarrow.parquet

    Path(name).parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.table(columns), name)
    return name


def hive() -> str:
    parquet("hive/y=1/t.parquet", a=[1])
    parquet("hive/y=2/t.parquet", a=[2])
    return "hive"


def parquets() -> str:
    parquet("p/1.parquet", a=[1], b=[2])
    parquet("p/2.parquet", a=[1.5], b=[2])
    return "p"


def mixed() -> str:
    write("m/a.csv", "a\n1\n")
    write("m/b.txt", "a")
    return "m/*"


def two_csv() -> str:
    write("m/a.csv", "a,b\n1,2\n")
    write("m/b.csv", "b,a\n1,2\n")
    return "m/*.csv"


def two_npy() -> str:
    saved("1.npy", np.zeros((3, 2)))
    saved("2.npy", np.zeros((3, 4)))
    return "*.npy"


def hdf5(**datasets: Any) -> str:
    import h5py

    with h5py.File("a.h5", "w") as file:
        for name, value in datasets.items():
            file[name] = value
    return "a.h5"


REFUSED: list[tuple[str, Callable[[], Any], list[str] | None, str]] = [
    ("nothing there", lambda: "no/such.npy", None, r"source='no/such\.npy': no such file or folder; expected a \.npy"),
    ("glob", lambda: "no/**/*.jpg", None, r"source='no/\*\*/\*\.jpg': no file matches; .*in .*/no$"),
    ("address", lambda: "https://a.b/c.jpg", None, r"an address; give a list of them"),
    ("suffix", lambda: write("x.wav"), None, r"a file with the suffix \.wav; expected a \.npy, \.npz, \.zarr"),
    ("no suffix", lambda: write("x"), None, r"a file with no suffix; expected"),
    ("packed", lambda: write("x.csv.gz"), None, r"packed file \(\.gz\) cannot be read in slices; unpack it first"),
    ("empty folder", lambda: write("f/.hidden") and "f", None, r"it has no files; expected images"),
    ("other folder", lambda: write("f/a.txt") and "f", None, r"the 1 files in it are others; expected images"),
    ("manifest", lambda: write("f/manifest.json", '{"form": {') and "f", None, r"is not a manifest that can be read"),
    ("no manifest", lambda: write("f/manifest.json") and "f", None, r"the 1 files in it are others; expected images"),
    ("mixed", mixed, None, r"2 files with \.csv, \.txt; expected images, Parquet, CSV or \.npy files only"),
    ("npy", lambda: write("x.npy", "no"), None, r"not an array of NumPy's .*numpy\.save"),
    ("npy cut", lambda: cut(saved("x.npy", np.arange(99))), None, r"cut off; its header speaks of 792 bytes, .*752"),
    ("npy objects", lambda: saved("x.npy", np.array([{}, 1])), None, r"Python objects \(dtype object\).*with pickle"),
    ("npy scalar", lambda: saved("x.npy", np.float64(3)), None, r"a single value of type float64; expected an array"),
    ("npy shapes", two_npy, None, r"'1\.npy' has rows of \(\(2,\).*'2\.npy' has rows of \(\(4,\).*the same in all"),
    ("npy empty", lambda: saved("x.npy", np.zeros((0, 3))), None, r"source='x\.npy': has no samples"),
    (
        "npy columns",
        lambda: saved("x.npy", np.zeros(3)),
        ["a"],
        r"columns=\['a'\]: .* is one array",
    ),
    ("npz", lambda: write("x.npz", "no"), None, r"not an \.npz file, or one that is cut off"),
    ("npz lengths", lambda: archive(x=np.zeros(3), y=np.zeros(4)), None, r"\['x'\] has 3 samples.*\['y'\] has 4"),
    ("npz column", lambda: archive(x=np.zeros(3)), ["z"], r"no 'z' in source='a\.npz'; expected some of 'x'"),
    ("npz objects", lambda: archive(x=np.array([{}])), None, r"\['x'\]: an array of Python objects"),
    ("zarr", lambda: write("x.zarr/a", "no") and "x.zarr", None, r"Zarr cannot open it"),
    ("hdf5", lambda: write("x.h5", "no"), None, r"HDF5 cannot open it .*expected an HDF5 file"),
    ("hdf5 column", lambda: hdf5(x=[1, 2]), ["y"], r"columns=\['y'\]: no 'y' in .*; expected some of 'x'"),
    ("hdf5 scalar", lambda: hdf5(x=1), ["x"], r"\['x'\]: a single value"),
    ("hdf5 lengths", lambda: hdf5(x=[1], y=[1, 2]), None, r"\['x'\] has 1 samples, .*\['y'\] has 2 samples"),
    ("hdf5 nothing", lambda: hdf5(), None, r"no datasets in it"),
    ("parquet", lambda: write("x.parquet", "no"), None, r"pyarrow cannot open it .*expected a Parquet file"),
    ("parquet column", lambda: parquet("t.parquet", a=[1], b=[2]), ["c"], r"no 'c' in .*; expected some of 'a', 'b'"),
    ("parquet none", lambda: parquet("t.parquet", a=[1]), [], r"columns=\[\]: nothing is chosen; expected some of 'a'"),
    ("parquet files", parquets, None, r"1\.parquet' has a: int64, .*2\.parquet' has a: double.*the same in all"),
    ("columns", lambda: parquet("t.parquet", a=[1]), "a", r"columns='a': expected a list of names, .*columns=\['a'\]"),  # type: ignore[list-item]
    ("partitions", hive, None, r"source='hive': the values of y are in the names of its folders.*columns="),
    ("csv", lambda: write("x.csv", ""), None, r"pyarrow cannot read its first rows .*expected a CSV file"),
    ("csv header", lambda: write("x.csv", "a,b\n"), None, r"source='x\.csv': has no samples"),
    ("csv column", lambda: write("x.csv", "a,b\n1,2\n"), ["c"], r"no 'c' in .*; expected some of 'a', 'b'"),
    ("csv twice", lambda: write("x.csv", "a,a\n1,2\n"), None, r"several columns are called 'a'"),
    ("csv semicolons", lambda: write("x.csv", "a;b\n1;2\n"), None, r"its only column is 'a;b'; expected .*commas"),
    ("csv quote", lambda: write("x.csv", 'a,b\n5" disk,1\n'), None, r"a quote in the middle of a value, at byte 5"),
    ("csv open quote", lambda: write("x.csv", 'a,b\n1,2\n"5,1\n'), None, r"(has no end|cannot read its first rows)"),
    ("csv files", two_csv, None, r"has the columns \['b', 'a'\], but .*has \['a', 'b'\]; expected the same"),
    ("number", lambda: 3, None, r"source=3: expected arrays"),
    ("none", lambda: None, None, r"source=None: expected arrays"),
    ("bytes", lambda: b"abc", None, r"bytes of length 3; expected arrays"),
    ("empty list", lambda: [], None, r"source: has no samples"),
    ("empty tuple", lambda: (), None, r"source: has no samples"),
    ("empty dict", lambda: {}, None, r"source: no arrays in it; expected at least one"),
    ("scalar", lambda: np.array(3), None, r"a single value of type int64"),
    ("objects", lambda: np.array([{}, None]), None, r"an array of Python objects .*astype"),
    ("masked", lambda: np.ma.masked_equal([1, 2], 2), None, r"a masked array; fill the gaps first"),
    ("lengths", lambda: (np.zeros(3), [1, 2]), None, r"source\[0\] has 3 samples, source\[1\] has 2 samples; expected"),
    ("names", lambda: {"x": np.zeros(3), "y": np.zeros(4)}, None, r"source\['x'\] has 3 samples, source\['y'\] has 4"),
    ("stream beside", lambda: (np.zeros(3), iter([1])), None, r"source\[1\]: a stream has no length.*zip\(x, y\)"),
    ("columns of arrays", lambda: np.zeros(3), ["a"], r"source is a ndarray, which has no columns"),
    ("file gone", lambda: [write("a.txt"), "b.txt"], None, r"'b\.txt' of its 2 names do not exist"),
    ("path gone", lambda: [Path("b.txt")], None, r"'b\.txt' of its 1 names do not exist"),
]


@pytest.mark.parametrize(("make", "columns", "message"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(make: Callable[[], Any], columns: list[str] | None, message: str, folder: Path) -> None:
    value = make()
    with pytest.raises(BadCall, match=message):
        source(value, columns=columns)


def test_the_argument_is_named(folder: Path) -> None:
    with pytest.raises(BadCall, match=r"data\[1\]='y\.npy': no such file"):
        source((np.zeros(3), "y.npy"), name="data")


def test_dask_of_unknown_shape() -> None:
    import dask.array

    value = dask.array.from_array(np.arange(10), chunks=3)
    with pytest.raises(BadCall, match="compute_chunk_sizes"):
        source(value[value > 4])


@pytest.mark.parametrize(("package", "name"), [("zarr", "x.zarr/a"), ("h5py", "x.h5"), ("PIL.Image", "x.png")])
def test_a_package_is_missing(package: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage, match=r'pip install "tenfold\[data\]"'):
        source(name.removesuffix("/a"))


def test_a_source_stays_what_it_is() -> None:
    found = source(np.zeros(3))
    assert source(found) is found
    beside = source((found, np.ones(3)))
    assert isinstance(beside, Source)
    assert beside.length == 3


def test_a_file_that_is_being_written(folder: Path) -> None:
    import h5py

    with h5py.File("a.h5", "w") as file:
        file["x"] = [1, 2]
        with pytest.raises(BadCall, match=r"a\.h5' is open for writing .*close it and give its path"):
            source(file["x"])
    with h5py.File("a.h5", "r") as file:
        found = source(file)
    assert found.read(1, 2)["x"].tolist() == [2]


def test_names_may_be_of_anything() -> None:
    assert source(["a/b.jpg", "and/or"]).read(0, 2).tolist() == ["a/b.jpg", "and/or"]


def test_folders_of_partitions_are_read_where_others_are_wanted(folder: Path) -> None:
    assert source(hive(), columns=["a"]).read(0, 2)["a"].tolist() == [1, 2]


def test_labels_may_be_called_as_a_folder_is(folder: Path) -> None:
    Path("cat").mkdir()
    _, labels = source((np.zeros(4), ["cat", "dog"] * 2)).read(1, 3)
    assert labels.tolist() == ["dog", "cat"]
    assert source(["cat"]).read(0, 1) == ["cat"]


def test_paths_stay_paths(folder: Path) -> None:
    write("a.txt")
    assert source([Path("a.txt"), "https://example.org/b"]).read(0, 2) == [Path("a.txt"), "https://example.org/b"]
