"""Sources that are named by a path: a file by its suffix, a folder by what is in it, a glob by what it matches."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tenfold.data import csv, hdf5, manifest, npy, parquet, zarr
from tenfold.data.chained import Chained
from tenfold.data.images import SUFFIXES as IMAGES
from tenfold.data.images import Images, library
from tenfold.data.listed import is_address
from tenfold.data.prepared import Prepared
from tenfold.data.source import Source
from tenfold.errors import BadCall

HDF5 = (".h5", ".hdf5")
CSV = (".csv", ".tsv")
PARQUET = (".parquet",)
TABLES = (*PARQUET, *CSV)
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
ACCEPTED = f"a .npy, .npz, .zarr, {', '.join((*HDF5, *TABLES))} or image file, a folder of images or Parquet files"

_ZARR = ("zarr.json", ".zarray", ".zgroup")
_MAGIC = re.compile(r"[*?[]")


def at(path: str, columns: Sequence[str] | None, name: str) -> Source:
    """What is there."""
    told = f"{name}={path!r}"
    if is_address(path):
        raise BadCall(f"{told}: an address; give a list of them, [{path!r}], which your function opens itself")
    if os.path.isdir(path):
        return _folder(path, columns, name)
    if os.path.exists(path):
        return _files([path], os.path.dirname(os.path.abspath(path)), columns, name, told)
    if not _MAGIC.search(path):
        raise BadCall(f"{told}: no such file or folder; expected {ACCEPTED}, or a glob such as 'photos/**/*.jpg'")
    found = sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
    if not found:
        raise BadCall(f"{told}: no file matches; expected some of them, in {os.path.abspath(_fixed(path))}")
    return _files(found, os.path.abspath(_fixed(path)), columns, name, told)


def _fixed(pattern: str) -> str:
    """The folders of a glob before anything that varies."""
    head = os.path.dirname(pattern[: _MAGIC.search(pattern).start()])  # type: ignore[union-attr]
    return head or "."


def _folder(path: str, columns: Sequence[str] | None, name: str) -> Source:
    told = f"{name}={path!r}"
    if manifest.is_there(Path(path)):
        _no_columns(columns, told, "a prepared set")
        return Prepared.open(path)
    if path.rstrip(os.sep).lower().endswith(".zarr") or any(os.path.exists(os.path.join(path, one)) for one in _ZARR):
        return zarr.at(path, columns, name)
    found = _below(path)
    kept = [one for one in found if one.lower().endswith((*IMAGES, *PARQUET))]
    if not kept:
        there = f"the {len(found)} files in it are others" if found else "it has no files"
        raise BadCall(
            f"{told}: {there}; expected images ({', '.join(IMAGES)}) or Parquet files, at any depth; "
            "for others, give a glob such as 'folder/*.csv'"
        )
    return _files(kept, os.path.abspath(path), columns, name, told)


def _below(folder: str) -> list[str]:
    """All files, sorted; without hidden ones, and what systems leave beside images."""
    return sorted(_walked(folder, ()))


def _walked(folder: str, around: tuple[str, ...]) -> Iterator[str]:
    """Links are followed, but not to a folder that is around them."""
    real = os.path.realpath(folder)
    if real in around:
        return
    with contextlib.suppress(PermissionError), os.scandir(folder) as there:
        for one in there:
            if not one.name.startswith("."):
                is_folder = os.path.isdir(one.path) if one.is_symlink() else one.is_dir()
                yield from _walked(one.path, (*around, real)) if is_folder else (one.path,)


def _files(found: list[str], root: str, columns: Sequence[str] | None, name: str, told: str) -> Source:
    """Files of one kind."""
    suffixes = {os.path.splitext(one)[1].lower() for one in found}
    if suffixes <= set(IMAGES):
        _no_columns(columns, told, "images")
        library()
        return Images([os.path.relpath(one, root) for one in found], root)
    if suffixes <= set(PARQUET):
        _no_partitions([os.path.relpath(one, root) for one in found], columns, told)
        return parquet.files(found, columns, name)
    if suffixes <= set(CSV):
        return csv.files(found, columns, name)
    if suffixes == {".npy"}:
        _no_columns(columns, told, "one array")
        return _arrays(found, name)
    if len(found) == 1 and suffixes == {".npz"}:
        return npy.npz(found[0], columns, name)
    if len(found) == 1 and suffixes <= set(HDF5):
        return hdf5.at(found[0], columns, name)
    raise BadCall(f"{told}: {_refused(found, suffixes)}")


def _refused(found: list[str], suffixes: set[str]) -> str:
    packed = sorted(suffixes & set(PACKED))
    if packed:
        return f"a packed file ({packed[0]}) cannot be read in slices; unpack it first, or write it as Parquet"
    kinds = ", ".join(sorted(suffix or "no suffix" for suffix in suffixes))
    if len(found) == 1:
        return f"a file with {kinds if kinds == 'no suffix' else 'the suffix ' + kinds}; expected {ACCEPTED}"
    return (
        f"{len(found)} files with {kinds}; expected images, Parquet, CSV or .npy files only. "
        "To open others yourself, give a list of their names"
    )


def _no_columns(columns: Sequence[str] | None, told: str, what: str) -> None:
    if columns is not None:
        raise BadCall(f"columns={list(columns)!r}: {told} is {what}, and has no columns")


def _no_partitions(found: list[str], columns: Sequence[str] | None, told: str) -> None:
    """Refuse columns whose values are in names of folders, unless others alone are wanted."""
    folders = [folder for one in found for folder in os.path.dirname(one).split(os.sep)]
    there = sorted({folder.partition("=")[0] for folder in folders if "=" in folder})
    if there and (columns is None or {*there} & {*columns}):
        raise BadCall(
            f"{told}: the values of {', '.join(there)} are in the names of its folders, which are not read; say with "
            "columns= which others are wanted, or give pyarrow.dataset.dataset(path, partitioning='hive').to_table()"
        )


def _arrays(found: list[str], name: str) -> Source:
    members = [npy.npy(path, name) for path in found]
    wrong = [
        f"{path!r} has rows of {member.form}"
        for path, member in zip(found, members, strict=True)
        if member.form != members[0].form
    ]
    if wrong:
        raise BadCall(f"{name}: {found[0]!r} has rows of {members[0].form}, but {wrong[0]}; expected the same in all")
    return members[0] if len(members) == 1 else Chained(members, f"rows in {len(members)} .npy files")
