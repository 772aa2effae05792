"""Streams: `tf.data.Dataset`, `IterableDataset`, generators and other iterables, which can only be read from their
beginning. The caller reads them, and sends their samples to workers, a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tenfold.data import stacking
from tenfold.data.source import PART_BYTES, Part, Rows, Source
from tenfold.errors import BadCall

BLOCK = 256
"""Samples that are sent together, if they are not too large for that."""


class Stream(Source):
    """An iterable."""

    def __init__(self, items: Iterable[Any], name: str) -> None:
        self._items = items
        self._name = name
        self._once = iter(items) is items if isinstance(items, Iterator) else False
        self._begun = False

    def __getstate__(self) -> dict[str, Any]:
        """In a worker it is only a name: its parts bring what they hold."""
        return {**vars(self), "_items": None}

    @property
    def length(self) -> None:
        return None

    @property
    def sample_bytes(self) -> int:
        return PART_BYTES // BLOCK

    def read(self, start: int, stop: int) -> Rows:
        raise BadCall(f"{self._name}: a stream has no places to read from; go through its parts")

    def stamp(self, start: int, stop: int) -> str:
        raise BadCall(f"{self._name}: what a stream will give is not known before it is read")

    def parts(self) -> Iterator[Part]:
        if self._once and self._begun:
            raise BadCall(
                f"{self._name}: this {type(self._items).__name__} has been read already, and gives nothing twice; "
                "make a new one, or give something that can be gone through again, such as a list"
            )
        self._begun = True
        return self._blocks()

    def _blocks(self) -> Iterator[Part]:
        start, size, block = 0, 0, []
        for one in self._samples():
            block.append(one)
            size += stacking.weight(one)
            if len(block) >= BLOCK or size >= PART_BYTES:
                yield Part(start, start + len(block), None, stacking.stacked(block))
                start, size, block = start + len(block), 0, []
        if block:
            yield Part(start, start + len(block), None, stacking.stacked(block))

    def _samples(self) -> Iterator[Any]:
        numpy = getattr(self._items, "as_numpy_iterator", None)  # tf.data: without tensors in between
        for one in numpy() if numpy is not None else self._items:
            yield stacking.plain(one)

    def describe(self) -> str:
        return f"a stream from {type(self._items).__name__}"
