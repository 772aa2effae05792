"""Rows from samples, from pieces of rows, and from rows: what sources of several kinds do with them.

A sample that frameworks have made is turned into NumPy's arrays here, without an import of the framework: a value can
only be one of its tensors if the framework is imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenfold.data.source import Rows
from tenfold.errors import BadCall

_NUMBERS = (bool, int, float, complex)


def plain(value: Any) -> Any:
    """The same with NumPy arrays in place of tensors and images, however nested."""
    if isinstance(value, np.ma.MaskedArray):
        return as_array(value)
    if isinstance(value, np.ndarray | np.generic | str | bytes) or value is None or type(value) in _NUMBERS:
        return value
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, list):
        return [plain(part) for part in value]
    return as_array(value) if is_tensor(value) else value


def is_tensor(value: Any) -> bool:
    """Whether a framework's array, or an image of Pillow's."""
    for name, kind in (
        ("torch", "Tensor"),
        ("jax", "Array"),
        ("tensorflow", "Tensor"),
        ("cupy", "ndarray"),
        ("PIL.Image", "Image"),
    ):
        found = getattr(sys.modules.get(name), kind, None)
        if isinstance(found, type) and isinstance(value, found):
            return True
    return False


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A framework's array as NumPy's, from whatever device; bfloat16, which NumPy has not, as float32."""
    if isinstance(value, np.ma.MaskedArray):
        raise BadCall("a masked array, whose gaps no file can keep; fill them first, such as array.filled(0)")
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    if hasattr(value, "get") and type(value).__module__.startswith("cupy"):
        value = value.get()
    try:
        found = np.asarray(value)
    except Exception as error:
        raise BadCall(f"a {type(value).__name__} that cannot be made an array: {error}") from error
    return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


def stacked(samples: Sequence[Any]) -> Rows:
    """Samples as rows: arrays of one shape become one array; what is not of one shape stays a list."""
    first = samples[0] if samples else None
    if isinstance(first, Mapping) and all(isinstance(one, Mapping) and one.keys() == first.keys() for one in samples):
        return {key: stacked([one[key] for one in samples]) for key in first} if first else list(samples)
    if isinstance(first, tuple) and all(isinstance(one, tuple) and len(one) == len(first) for one in samples):
        return tuple(stacked(column) for column in zip(*samples, strict=True)) if first else list(samples)
    if isinstance(first, np.ndarray | np.generic) and not first.dtype.hasobject:
        alike = all(isinstance(one, np.ndarray | np.generic) and _form(one) == _form(first) for one in samples)
        return np.stack(samples) if alike else list(samples)
    if type(first) in _NUMBERS and all(type(one) is type(first) for one in samples):
        found = np.array(samples)
        return list(samples) if found.dtype.hasobject else found
    return list(samples)


def _form(value: Any) -> tuple[Any, ...]:
    return value.shape, value.dtype


def joined(pieces: Sequence[Rows]) -> Rows:
    """Rows one after the other."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if isinstance(first, Mapping):
        return {key: joined([piece[key] for piece in pieces]) for key in first}
    if isinstance(first, tuple):
        return tuple(joined(column) for column in zip(*pieces, strict=True))
    if isinstance(first, np.ndarray) and all(_joins(first, piece) for piece in pieces):
        return np.concatenate(pieces)
    return [one for piece in pieces for one in piece]


def _joins(first: np.ndarray[Any, Any], piece: Any) -> bool:
    return isinstance(piece, np.ndarray) and piece.shape[1:] == first.shape[1:]


def sliced(rows: Rows, start: int, stop: int) -> Rows:
    """Some of them: a copy, so that who changes it does not change what is kept."""
    if isinstance(rows, Mapping):
        return {key: sliced(value, start, stop) for key, value in rows.items()}
    if isinstance(rows, tuple):
        return tuple(sliced(value, start, stop) for value in rows)
    return own(rows[start:stop])


def own(value: Any) -> Any:
    """The same with copies of all arrays in it, however nested: for who may write to what it is given."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, Mapping):
        return {key: own(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(own(part) for part in value)
    return [own(part) for part in value] if isinstance(value, list) else value


def weight(value: Any) -> int:
    """About how many bytes a sample, or rows, take."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + (48 * value.size if value.dtype.hasobject else 0)
    if isinstance(value, Mapping):
        return sum(weight(part) for part in value.values())
    if isinstance(value, tuple | list):
        return sum(weight(part) for part in value)
    return sys.getsizeof(value)
