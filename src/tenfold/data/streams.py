"""Streams: `tf.data.Dataset`, `IterableDataset`, generators and other iterables, which can only be read from their
beginning. The caller reads them, and sends their samples to workers, a block at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tenfold.data import stacking
from tenfold.data.source import PART_BYTES, Part, Rows, Source
from tenfold.errors import BadCall

BLOCK = 256
"""Samples that are sent together, if they are not too large for that; more where batches are to be whole."""
_INFINITE = -1
"""What tf.data says of a set that is repeated without end; -2 of one that does not know."""


class Stream(Source):
    """An iterable."""

    def __init__(self, items: Iterable[Any], name: str) -> None:
        self._items = items
        self._name = name
        self._once = iter(items) is items if isinstance(items, Iterator) else False
        self._begun = False
        self._expected = _expected(items)
        if self._expected == _INFINITE:
            raise BadCall(f"{name}: this {type(items).__name__} never ends; give some of it, such as take(1000)")

    def __getstate__(self) -> dict[str, Any]:
        """In a worker it is only a name: its parts bring what they hold."""
        return {**vars(self), "_items": None}

    @property
    def length(self) -> None:
        return None

    @property
    def expected(self) -> int | None:
        return self._expected

    @property
    def sample_bytes(self) -> int:
        return PART_BYTES // BLOCK

    def read(self, start: int, stop: int) -> Rows:
        raise BadCall(f"{self._name}: a stream has no places to read from; go through its parts")

    def stamp(self, start: int, stop: int) -> str:
        raise BadCall(f"{self._name}: what a stream will give is not known before it is read")

    def parts(self) -> Iterator[Part]:
        return self.blocks(1)

    def blocks(self, multiple: int) -> Iterator[Part]:
        if self._once and self._begun:
            raise BadCall(
                f"{self._name}: this {type(self._items).__name__} has been read already, and gives nothing twice; "
                "make a new one, or give something that can be gone through again, such as a list"
            )
        self._begun = True
        return self._blocks(multiple)

    def _blocks(self, multiple: int) -> Iterator[Part]:
        start, size, block = 0, 0, []
        for one in self._samples():
            block.append(one)
            size += stacking.weight(one)
            if (len(block) >= BLOCK or size >= PART_BYTES) and len(block) % multiple == 0:
                yield Part(start, start + len(block), None, stacking.stacked(block))
                start, size, block = start + len(block), 0, []
        if block:
            yield Part(start, start + len(block), None, stacking.stacked(block))

    def _samples(self) -> Iterator[Any]:
        numpy = getattr(self._items, "as_numpy_iterator", None)  # tf.data: without tensors in between
        for one in numpy() if numpy is not None else self._items:
            yield stacking.plain(one)

    def describe(self) -> str:
        some = "" if self._expected is None else f" of {self._expected} samples"
        return f"a stream{some} from {type(self._items).__name__}"


def _expected(items: Any) -> int | None:
    """Some streams know how many samples they have, though none can be read before those in front of it."""
    if hasattr(items, "as_numpy_iterator") and hasattr(items, "cardinality"):  # tf.data
        found = int(items.cardinality())
        return found if found >= _INFINITE else None
    return len(items) if isinstance(items, Collection) else None
