"""From what a caller has given to a source of it: the kind is found, and all that is wrong is said before work starts.

No framework is imported to look at a value's type: a value can only be of its types if it is imported already.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tenfold.data import arrays, arrow, dask, files, frames, hdf5, items, stacking, streams, together, zarr
from tenfold.data.listed import is_address
from tenfold.data.paths import at
from tenfold.data.source import Source
from tenfold.errors import BadCall

ACCEPTED = (
    "arrays (NumPy, Dask, Zarr, HDF5), dataframes, a path, a glob or a folder, a list of names, a Dataset of PyTorch "
    "or tf.data, an iterable, or a tuple or dict of these"
)


def source(value: Any, *, columns: Sequence[str] | None = None, name: str = "source") -> Source:
    """The source for a value of the caller's; `name` is what its argument is called in errors."""
    if isinstance(columns, str):
        raise BadCall(f"columns={columns!r}: expected a list of names, such as columns=[{columns!r}]")
    found = _found(value, columns, name)
    if found.expected == 0:
        raise BadCall(f"{_told(value, name)}: has no samples")
    return found


def _told(value: Any, name: str) -> str:
    return f"{name}={str(value)!r}" if isinstance(value, str | os.PathLike) else name


def _found(value: Any, columns: Sequence[str] | None, name: str) -> Source:
    if isinstance(value, str | os.PathLike):
        return at(os.fspath(value), columns, name)
    origins = _origins(value)
    if "zarr" in origins:
        return zarr.of(value, columns, name)
    if "dask" in origins:
        return dask.of(value, columns, name)
    if "pandas" in origins and hasattr(value, "columns"):
        return frames.of(value, columns, name)
    if "pyarrow" in origins and hasattr(value, "column_names"):
        return arrow.of(value, columns, name)
    if columns is not None:
        raise BadCall(
            f"columns={list(columns)!r}: {name} is a {type(value).__name__}, which has no columns; they are for "
            "tables, .npz and HDF5 files, and groups of Zarr"
        )
    return _plain(value, origins, name)


def _plain(value: Any, origins: set[str], name: str) -> Source:
    """What has no columns to choose from."""
    if isinstance(value, Source):
        return value
    if isinstance(value, tuple) and value:
        return together.Together(tuple(_side(one, f"{name}[{place}]") for place, one in enumerate(value)), name)
    if isinstance(value, Mapping):
        return together.Together({key: _side(one, f"{name}[{key!r}]") for key, one in value.items()}, name)
    if "h5py" in origins:
        return hdf5.of(value, name)
    if "pandas" in origins:
        return arrays.of_array(frames.column(value), name)
    if isinstance(value, np.ndarray):
        return arrays.of_array(value, name)
    if stacking.is_tensor(value):
        return arrays.of_array(stacking.as_array(value), name)
    if isinstance(value, list) and value and all(isinstance(one, str | os.PathLike) for one in value):
        return _names(value, name)
    return _by_ability(value, origins, name)


def _side(value: Any, name: str) -> Source:
    """One of several side by side. A list of numbers is an array of them here: labels, most of the time."""
    if isinstance(value, list) and value and all(isinstance(one, int | float | np.generic) for one in value):
        value = np.array(value)
    return source(value, name=name)


def _by_ability(value: Any, origins: set[str], name: str) -> Source:
    names = {kind.__name__ for kind in type(value).__mro__}
    if "torch" in origins and "DataLoader" in names:
        raise BadCall(f"{name}: a DataLoader gives batches; give its dataset: {name}=loader.dataset")
    if isinstance(value, bytes | bytearray | memoryview):
        raise BadCall(f"{name}: {type(value).__name__} of length {len(value)}; expected {ACCEPTED}")
    is_stream = "IterableDataset" in names or hasattr(value, "as_numpy_iterator")
    if hasattr(value, "__len__") and hasattr(value, "__getitem__") and not is_stream:
        return items.Items(value, name)
    if isinstance(value, Iterable) or is_stream:
        return streams.Stream(value, name)
    raise BadCall(f"{name}={value!r}: expected {ACCEPTED}")


def _names(value: list[Any], name: str) -> Source:
    """Where some are files, all others but addresses have to be; if none is, they are texts, such as labels.

    A folder may have the name of a label. It is a file here only if all others are, too.
    """
    found = files.Names(value)
    gone = found.gone
    if not gone:
        return found
    if all(isinstance(one, str) for one in value) and not any(map(os.path.isfile, set(value))):
        return found if any(map(is_address, value)) else arrays.of_array(np.array(value, dtype=object), name)
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    raise BadCall(
        f"{name}: {', '.join(map(repr, gone[:3]))}{more} of its {found.length} names do not exist; "
        "expected files or addresses; of texts that are no names, an array: numpy.array([...])"
    )


def _origins(value: Any) -> set[str]:
    """The packages that its classes come from."""
    return {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
