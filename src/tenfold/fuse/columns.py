"""The data of a `Fit`: columns of equal length, read in slices; nested as the model wants them.

`(x, y)` or `(x, y, sample_weight)`; x and y are an array each, or a dict, list or tuple of them. An array may be a
memmap or the name of an `.npy` file, which is mapped and never loaded with pickle. Used by the caller, to check, and by
workers, to read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from tenfold.data.prepared import Prepared
from tenfold.errors import BadCall

STREAM_ABOVE = 1 << 30
"""Bytes of mapped files above which they are read block by block. A fixed number, because the order of rows depends on
it, and results must not depend on the machine."""
BLOCK = 1 << 27
"""Bytes of a block: large enough that a disk reads at full speed, small enough for a few of them in any memory."""
PARTS = ("x", "y", "sample_weight")

Tree = Any
"""An array, or a dict, list or tuple of trees."""


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The same nesting, with `function` called for each array."""
    if isinstance(tree, Mapping):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(mapped(function, value) for value in tree)
    return function(tree)


def leaves(tree: Tree) -> list[Any]:
    """The arrays, in order."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


@dataclass(frozen=True, slots=True)
class Columns:
    """x, y and weights, of equal length."""

    x: Tree
    """What goes into the model."""
    y: Tree
    """What should come out; None where the model needs none."""
    weight: numpy.ndarray | None
    """How much each row counts."""
    streams: bool = False
    """It is read block by block: files that are larger than `STREAM_ABOVE`. Told once, by the caller: in a worker a
    mapped file is an array like any other."""
    passing: bool = False
    """Read for one use: nobody needs to keep it."""
    start: int = 0
    """The number of its first row in the data that it is a block of."""

    def __len__(self) -> int:
        return len(leaves(self.x)[0])

    @property
    def parts(self) -> tuple[Tree, ...]:
        """As frameworks take them: without what is not there."""
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in leaves(self.parts) if array is not None)

    def take(self, rows: slice | numpy.ndarray) -> Columns:
        """Some rows."""
        x, y, weight = mapped(lambda array: None if array is None else array[rows], (self.x, self.y, self.weight))
        start = (rows.start or 0) if isinstance(rows, slice) else 0
        return Columns(x, y, weight, self.streams, start=self.start + start)

    def numbers(self, rows: numpy.ndarray) -> numpy.ndarray:
        """Of rows of this block, what they are called in the data: for people."""
        return rows + self.start

    def blocks(self, batch_size: int) -> list[slice]:
        """Where it is cut for reading: whole batches, except at the end. One block where it is not streamed."""
        if not self.streams:
            return [slice(0, len(self))]
        rows = max(1, BLOCK // max(1, self.nbytes // max(1, len(self))) // batch_size) * batch_size
        return [slice(start, min(start + rows, len(self))) for start in range(0, len(self), rows)]


def columns(data: Any, name: str) -> Columns:
    """Check what the caller gave; all faults come in one message."""
    x, y, weight = _parts(data, name)
    found = Columns(
        mapped(lambda value: _array(value, f"{name}: x"), x),
        _optional(y, f"{name}: y"),
        _optional(weight, f"{name}: sample_weight"),
    )
    faults = [
        f"{what} has {len(array)} rows, x has {len(found)}"
        for what, tree in zip(PARTS[1:], (found.y, found.weight), strict=True)
        for array in leaves(tree)
        if array is not None and len(array) != len(found)
    ]
    faults += [
        f"an input of x has {len(a)} rows, the first {len(found)}" for a in leaves(found.x) if len(a) != len(found)
    ]
    if not len(found):
        faults.append("there are no rows")
    if isinstance(found.weight, Mapping | tuple):
        faults.append("sample_weight is several arrays, expected one, with one number a row: it counts for all outputs")
    elif found.weight is not None and found.weight.ndim != 1:
        faults.append(f"sample_weight has the shape {found.weight.shape}, expected one number a row")
    if faults:
        raise BadCall(f"{name}: {'; '.join(faults)}")
    files = [array for array in leaves(found.parts) if isinstance(array, numpy.memmap)]
    return replace(found, streams=sum(array.nbytes for array in files) > STREAM_ABOVE)


def _parts(data: Any, name: str) -> tuple[Any, Any, Any]:
    if isinstance(data, str | os.PathLike):
        data = _files(Path(data), name)
    if isinstance(data, Prepared):
        data = data.numpy()
    if isinstance(data, Columns):
        return data.x, data.y, data.weight
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise BadCall(
            f"{name}={type(data).__name__}: expected (x, y) or (x, y, sample_weight), "
            "a prepared set of such rows, or a folder that holds x.npy and y.npy"
        )
    return data[0], data[1], data[2] if len(data) == 3 else None


def _files(folder: Path, name: str) -> tuple[Any, ...]:
    found = [folder / f"{part}.npy" for part in PARTS]
    missing = [str(path) for path in found[:2] if not path.is_file()]
    if missing:
        raise BadCall(f"{name}={str(folder)!r}: there is no {' and no '.join(missing)}; a folder holds x.npy and y.npy")
    return tuple(path for path in found if path.is_file())


def _optional(tree: Any, name: str) -> Any:
    return mapped(lambda value: None if value is None else _array(value, name), tree)


def _array(value: Any, name: str) -> numpy.ndarray:
    if isinstance(value, str | os.PathLike):
        path = Path(value)
        if path.suffix != ".npy" or not path.is_file():
            raise BadCall(f"{name}: {str(path)!r} is not an .npy file that exists")
        try:
            value = numpy.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise BadCall(f"{name}: {str(path)!r} cannot be read: {error}") from error
    if numpy.ma.is_masked(value):
        raise BadCall(f"{name}: a masked array, whose gaps would be filled with what is below them; fill or drop them")
    array = value if isinstance(value, numpy.memmap) else numpy.asarray(value)
    if not array.dtype.isnative and array.nbytes <= STREAM_ABOVE:
        array = array.astype(array.dtype.newbyteorder("="))  # frameworks do not know the other order of bytes
    if array.ndim == 0:
        raise BadCall(
            f"{name}: found {array.dtype} of the shape (), expected numbers, one row a sample. A list or tuple is "
            "several inputs: give numpy.asarray(...) of what is one"
        )
    if array.dtype.kind not in "biuf":
        raise BadCall(
            f"{name}: found {array.dtype} of the shape {array.shape}, expected numbers, one row a sample; labels are "
            "numbered by numpy.unique(labels, return_inverse=True)[1]"
        )
    return array


def split(count: int, fraction: float) -> tuple[int, int]:
    """How many rows train and how many validate: the last ones, as Keras does it."""
    training = int(count * (1.0 - fraction))
    return training, count - training


def weighted(data: Columns, class_weight: Mapping[int, float] | None) -> Columns:
    """With each row counted by its class."""
    if class_weight is None:
        return data
    if not isinstance(class_weight, Mapping) or not all(_is_number(n) for pair in class_weight.items() for n in pair):
        raise BadCall(
            f"class_weight={class_weight!r}: expected a dict of class numbers and weights, as {{0: 1.0, 1: 5.0}}"
        )
    if data.weight is not None:
        raise BadCall("class_weight=: the data has a sample_weight already; multiply them and give one")
    y = data.y
    if not isinstance(y, numpy.ndarray):
        raise BadCall(f"class_weight=: expected one array of classes as y, found {type(y).__name__}")
    if y.ndim > 2:
        raise BadCall(f"class_weight=: y has the shape {y.shape}, expected a class for each row; give a sample_weight")
    classes = numpy.argmax(y, axis=-1) if y.ndim > 1 and y.shape[-1] > 1 else numpy.round(y).reshape(len(y))
    weight = numpy.ones(len(y), numpy.float32)
    missing = [number for number in class_weight if not numpy.any(classes == number)]
    if missing:
        raise BadCall(f"class_weight={class_weight!r}: no row is of class {', '.join(map(str, missing))}")
    for number, value in class_weight.items():
        weight[classes == number] = value
    return replace(data, weight=weight)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | numpy.number) and not isinstance(value, bool)


def check_rows(rows: Any, name: str, count: int) -> numpy.ndarray:
    """Row numbers of one model, as they came with its parameters."""
    found = numpy.asarray(rows)
    if found.dtype.kind == "b" and found.shape == (count,):
        found = numpy.flatnonzero(found)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise BadCall(f"{name}: expected row numbers, found {found.dtype} of the shape {found.shape}")
    if found.min() < 0 or found.max() >= count:
        raise BadCall(f"{name}: rows from {found.min()} to {found.max()} of {count}")
    return found.astype(numpy.int32)


def described(tree: Sequence[Any]) -> str:
    """For people: "1797 x 64 float32"."""
    return ", ".join(f"{' x '.join(map(str, a.shape))} {a.dtype}" for a in leaves(tree) if a is not None)
