"""Whatever has a length and gives its samples by number: a `Dataset` of PyTorch, a list, an object of the caller's.

Tensors become NumPy arrays. What it holds is known by its pickle, and by the code of its class and of the functions in
it; what its samples are made from, files for example, it alone knows.
"""

from __future__ import annotations

import pickle
import types
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from tenfold.data import stacking, stamps
from tenfold.data.source import Part, Rows, Source
from tenfold.errors import BadCall, SampleUnreadable
from tenfold.journal import fingerprint

_GUESS = 1 << 16  # bytes of a sample where the first one cannot be had


class Items(Source):
    """Samples that an object gives one by one."""

    def __init__(self, items: Any, name: str) -> None:
        self._items = items
        try:
            self._length = len(items)
        except TypeError as error:
            raise BadCall(f"{name}: {type(items).__name__} does not know its length ({error})") from error
        found = _mark(items)
        self._known = found is not None
        self._mark = found or uuid.uuid4().hex  # like nothing else, so that nothing is taken for it
        self._size: int | None = None

    @property
    def length(self) -> int:
        return self._length

    @property
    def sample_bytes(self) -> int:
        if self._size is None:
            try:
                self._size = max(1, stacking.weight(stacking.plain(self._items[0])))
            except Exception:  # whoever reads it will hear of that
                self._size = _GUESS
        return self._size

    def read(self, start: int, stop: int) -> Rows:
        # What is not stacked would be the object's own arrays, to which a function may write.
        return stacking.stacked([stacking.own(self._one(number)) for number in range(start, stop)])

    def _one(self, number: int) -> Any:
        try:
            return stacking.plain(self._items[number])
        except Exception as error:
            told = f"sample {number} of {type(self._items).__name__}"
            raise SampleUnreadable(f"{told} cannot be read: {type(error).__name__}: {error}") from error

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts(self._mark, start, stop)

    def parts(self) -> Iterator[Part]:
        for part in super().parts():
            yield part if self._known else Part(part.start, part.stop, None)

    def describe(self) -> str:
        return f"{self.length} samples of {type(self._items).__name__}"


def _mark(items: Any) -> str | None:
    """None for what cannot be pickled: nobody could say whether it is the same the next time."""
    found = stamps.Digesting()
    try:
        _Content(found, protocol=5).dump(items)
    except Exception:  # an open file, a lock
        return None
    return found.hexdigest()


class _Content(pickle.Pickler):
    """Arrays and tensors by their content, since their pickles depend on where they come from; code by what it is."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType | type) and not fingerprint.is_installed(value):
            return str, (repr(sorted(fingerprint.of_function(value).items())),)
        if isinstance(value, types.ModuleType):
            return str, (value.__name__,)
        if not stacking.is_tensor(value) and not isinstance(value, np.ndarray):
            return NotImplemented
        array = stacking.as_array(value)
        return NotImplemented if array.dtype.hasobject else (stamps.of_texts, (stamps.of_array(array), array.shape))
