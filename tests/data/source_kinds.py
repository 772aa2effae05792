"""One of every kind of source, with what it must give: `KINDS[kind](folder, shift)` makes it, with numbers moved by
`shift`, and returns what to open and its samples, one by one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tenfold

LENGTH = 640


@dataclass
class Made:
    value: Any
    samples: list[Any]
    columns: list[str] | None = None


class Squares:
    """A plain object with a length, and samples by number."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, number: int) -> tuple[np.ndarray[Any, Any], int]:
        return np.full(3, number**2 + self.shift), number


def rows(shift: int) -> np.ndarray[Any, Any]:
    return np.arange(LENGTH * 6, dtype=np.float32).reshape(LENGTH, 2, 3) + shift


def labels(shift: int) -> np.ndarray[Any, Any]:
    return np.arange(LENGTH) + shift


def texts(shift: int) -> list[str]:
    """With all that is difficult in a CSV file."""
    return [f'{n}, "quoted"\nand broken' if n % 3 == 0 else f"ünïcode {n + shift}" for n in range(LENGTH)]


def pairs(shift: int) -> list[dict[str, Any]]:
    return [{"x": x, "y": y} for x, y in zip(rows(shift), labels(shift), strict=True)]


def memory(folder: Path, shift: int) -> Made:
    return Made(rows(shift), list(rows(shift)))


def memmap(folder: Path, shift: int) -> Made:
    found = np.memmap(folder / "raw", np.float32, "w+", offset=24, shape=(LENGTH * 2, 2, 3))
    found[:] = np.repeat(rows(shift), 2, axis=0)
    found.flush()
    return Made(np.memmap(folder / "raw", np.float32, "r", offset=24, shape=found.shape)[::2], list(rows(shift)))


def npy(folder: Path, shift: int) -> Made:
    np.save(folder / "x.npy", rows(shift))
    return Made(folder / "x.npy", list(rows(shift)))


def npy_fortran(folder: Path, shift: int) -> Made:
    np.save(folder / "x.npy", np.asfortranarray(rows(shift)))
    return Made(str(folder / "x.npy"), list(rows(shift)))


def npy_glob(folder: Path, shift: int) -> Made:
    for number, piece in enumerate(np.array_split(rows(shift), 7)):
        np.save(folder / f"{number}.npy", piece)
    return Made(str(folder / "*.npy"), list(rows(shift)))


def npz(folder: Path, shift: int) -> Made:
    np.savez(folder / "a.npz", x=rows(shift), y=labels(shift), other=np.zeros(3))
    return Made(folder / "a.npz", pairs(shift), ["x", "y"])


def npz_compressed(folder: Path, shift: int) -> Made:
    np.savez_compressed(folder / "a.npz", x=rows(shift), y=labels(shift))
    return Made(folder / "a.npz", pairs(shift))


def zarr_array(folder: Path, shift: int) -> Made:
    import zarr

    zarr.create_array(folder / "x.zarr", data=rows(shift), chunks=(50, 2, 2), overwrite=True)
    return Made(folder / "x.zarr", list(rows(shift)))


def wide(shift: int) -> np.ndarray[Any, Any]:
    """With rows that are large enough for chunks of them to be kept."""
    return np.repeat(rows(shift).reshape(LENGTH, 6), 300, axis=1)


def zarr_wide(folder: Path, shift: int) -> Made:
    import zarr

    zarr.create_array(folder / "x.zarr", data=wide(shift), chunks=(50, 1000), overwrite=True)
    return Made(folder / "x.zarr", list(wide(shift)))


def zarr_opened(folder: Path, shift: int) -> Made:
    import zarr

    return Made(
        zarr.create_array(folder / "x.zarr", data=rows(shift), chunks=(50, 2, 2), overwrite=True), list(rows(shift))
    )


def zarr_group(folder: Path, shift: int) -> Made:
    import zarr

    group = zarr.open_group(folder / "group", mode="w")
    group.create_array("x", data=rows(shift), chunks=(64, 2, 3))
    group.create_array("y", data=labels(shift), chunks=(100,))
    return Made(folder / "group", pairs(shift))


def hdf5(folder: Path, shift: int) -> Made:
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("train/x", data=wide(shift), chunks=(70, 1800), compression="gzip", compression_opts=1)
        file["train/y"] = labels(shift)
        file["names"] = texts(shift)
        file["other"] = 3
    columns = ["train/x", "train/y", "names"]
    return Made(folder / "a.h5", named(columns, wide(shift), labels(shift), texts(shift)), columns)


def named(columns: list[str], *values: Any) -> list[dict[str, Any]]:
    return [dict(zip(columns, sample, strict=True)) for sample in zip(*values, strict=True)]


def table(shift: int) -> Any:
    import pyarrow as pa

    gaps = [None if n == 600 else n + shift for n in range(LENGTH)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows(shift).ravel()), 6)
    return pa.table({"number": labels(shift), "gaps": gaps, "text": texts(shift), "vector": vectors})


def parquet(folder: Path, shift: int) -> Made:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table(shift), folder / "t.parquet", row_group_size=90)
    gaps = np.where(np.arange(LENGTH) == 600, np.nan, np.arange(LENGTH) + shift)
    columns = ["vector", "gaps", "text"]
    return Made(folder / "t.parquet", named(columns, rows(shift).reshape(-1, 6), gaps, texts(shift)), columns)


def parquet_folder(folder: Path, shift: int) -> Made:
    import pyarrow.parquet

    (folder / "below").mkdir(exist_ok=True)
    whole = table(shift).select(["number", "text"])
    for number in range(4):
        piece = whole.slice(number * 160, 160)
        pyarrow.parquet.write_table(piece, folder / "below" / f"{number}.parquet", row_group_size=50)
    return Made(folder, named(["number", "text"], labels(shift), texts(shift)))


def csv_file(folder: Path, shift: int) -> Made:
    with open(folder / "t.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "half"])
        writer.writerows(zip(labels(shift), texts(shift), labels(shift) / 2, strict=True))
    columns = ["half", "text"]
    return Made(folder / "t.csv", named(columns, labels(shift) / 2, texts(shift)), columns)


def csv_glob(folder: Path, shift: int) -> Made:
    for number, piece in enumerate(np.array_split(labels(shift), 3)):
        lines = [f"{n},text {n}\r\n" for n in piece]
        (folder / f"{number}.csv").write_bytes(("number,text\r\n\r\n" + "\n".join(lines)).encode())
    return Made(str(folder / "*.csv"), named(["number", "text"], labels(shift), [f"text {n}" for n in labels(shift)]))


def images(folder: Path, shift: int) -> Made:
    from PIL import Image

    samples = []
    for number in range(60):
        shape = (4, 5, 3) if number % 2 else (6, 3)
        samples.append((np.arange(np.prod(shape)).reshape(shape) + number + shift).astype(np.uint8))
        place = folder / "phötos" / f"class {number // 20}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(samples[-1]).save(place / f"{number:02d} ü.png")
    (folder / "phötos" / "notes.txt").write_text("not an image")
    return Made(folder / "phötos", samples)


def images_glob(folder: Path, shift: int) -> Made:
    made = images(folder, shift)
    return Made(str(folder / "**" / "*.png"), made.samples)


def names(folder: Path, shift: int) -> Made:
    (folder / "a.txt").write_text("a" * (shift + 1))
    found = [folder / "a.txt", *[f"https://example.org/{number + shift}" for number in range(99)]]
    return Made(found, list(found))


def tuples(folder: Path, shift: int) -> Made:
    np.save(folder / "x.npy", rows(shift))
    value = (str(folder / "x.npy"), labels(shift).tolist())
    return Made(value, list(zip(rows(shift), labels(shift), strict=True)))


def dicts(folder: Path, shift: int) -> Made:
    words = np.array(texts(shift), dtype=object)
    nested = {"in": (rows(shift), labels(shift)), "words": words}
    samples = [
        {"in": (x, y), "words": word} for x, y, word in zip(rows(shift), labels(shift), texts(shift), strict=True)
    ]
    return Made(nested, samples)


def objects(folder: Path, shift: int) -> Made:
    value = Squares(shift)
    return Made(value, [value[number] for number in range(LENGTH)])


def torch_dataset(folder: Path, shift: int) -> Made:
    import torch

    data = torch.utils.data.TensorDataset(torch.from_numpy(rows(shift)), torch.from_numpy(labels(shift)))
    return Made(data, list(zip(rows(shift), labels(shift), strict=True)))


def dask_array(folder: Path, shift: int) -> Made:
    import dask.array

    return Made(dask.array.from_array(rows(shift), chunks=(70, 2, 2)) + 1, list(rows(shift + 1)))


def frame(shift: int) -> Any:
    import pandas

    return pandas.DataFrame({"number": labels(shift), "text": texts(shift), "other": 0})


def pandas_types(folder: Path, shift: int) -> Made:
    import pandas

    values = [n + shift for n in range(LENGTH)]
    found = pandas.DataFrame(
        {
            0: pandas.array(values, dtype="Int64"),
            "gaps": pandas.array([*values[:-1], None], dtype="Int64"),
            "text": pandas.Series(values).astype(str).astype("category"),
            "time": pandas.to_datetime(values, unit="s", utc=True),
            "words": [None, *map(str, values[1:])],
        }
    )
    times = np.array(values, "datetime64[s]")
    gaps = np.array([*values[:-1], np.nan])
    texts = list(map(str, values))
    return Made(found, named(["0", "gaps", "text", "time", "words"], values, gaps, texts, times, [None, *texts[1:]]))


def zarr_memory(folder: Path, shift: int) -> Made:
    import zarr

    store = zarr.storage.MemoryStore()
    return Made(zarr.create_array(store, data=rows(shift), chunks=(50, 2, 2)), list(rows(shift)))


def dask_frame(folder: Path, shift: int) -> Made:
    import dask.dataframe

    value = dask.dataframe.from_pandas(frame(shift), npartitions=5)
    return Made(value, named(["number", "text"], labels(shift), texts(shift)), ["number", "text"])


def arrow_table(folder: Path, shift: int) -> Made:
    import pyarrow

    value = pyarrow.Table.from_pandas(frame(shift))
    return Made(value, named(["text", "number"], texts(shift), labels(shift)), ["text", "number"])


def pandas_frame(folder: Path, shift: int) -> Made:
    return Made(frame(shift), named(["text", "number"], texts(shift), labels(shift)), ["text", "number"])


def _prepared(folder: Path, shift: int, kind: Any) -> tenfold.Prepared:
    x, y = rows(shift), labels(shift)
    return tenfold.prepare(lambda sample: sample, (x, y), folder / "set", format=kind, engine="serial", progress=False)


def prepared_npy(folder: Path, shift: int) -> Made:
    """By the name of its folder; the others as they are."""
    return Made(_prepared(folder, shift, "npy").folder, list(zip(rows(shift), labels(shift), strict=True)))


def prepared_zarr(folder: Path, shift: int) -> Made:
    return Made(_prepared(folder, shift, "zarr"), list(zip(rows(shift), labels(shift), strict=True)))


def prepared_parquet(folder: Path, shift: int) -> Made:
    return Made(_prepared(folder, shift, "parquet"), list(zip(rows(shift), labels(shift), strict=True)))


def prepared_some(folder: Path, shift: int) -> Made:
    """Rows of a set that do not follow each other."""
    chosen, _ = _prepared(folder, shift, "npy").split(0.9, 0.1)
    pairs = list(zip(rows(shift), labels(shift), strict=True))
    return Made(chosen, [pairs[y - shift] for y in chosen.numpy()[1].tolist()])


KINDS: dict[str, Callable[[Path, int], Made]] = {
    made.__name__: made
    for made in (
        *(
            memory,
            memmap,
            npy,
            npy_fortran,
            npy_glob,
            npz,
            npz_compressed,
            zarr_array,
            zarr_wide,
            zarr_opened,
            zarr_group,
            hdf5,
        ),
        *(parquet, parquet_folder, csv_file, csv_glob, images, images_glob, names, tuples, dicts, objects),
        *(torch_dataset, dask_array, dask_frame, arrow_table, pandas_frame, pandas_types, zarr_memory),
        *(prepared_npy, prepared_zarr, prepared_parquet, prepared_some),
    )
}
