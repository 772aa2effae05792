"""How many rows a batch should have, from what some sizes have turned out to be like; others have measured that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOISE = 0.95
"""Of the best speed, which is as good: then the larger size is taken, whose rows cost less besides."""
ENOUGH = 0.05
"""Seconds of a batch beside which nothing is left to save: a call of it costs less than a millisecond."""
SHARE = 4
"""A batch may take a quarter of a seat's memory: a framework, the rows that are read and outputs are there too."""
WITHOUT_LIMIT = 256 << 20
"""Bytes that a batch may take where a seat's memory is not limited: rows may be images, and 8192 of them gigabytes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a size turned out to be like."""

    size: int
    """Rows in a batch."""
    seconds: float
    """For a batch."""
    memory: int
    """Bytes of a batch, of what became of it, and of what the process grew by."""
    rows: int = 0
    """Bytes of the batch alone."""

    @property
    def speed(self) -> float:
        """Rows in a second."""
        return self.size / max(self.seconds, 1e-9)


def limit_of(memory: int | None) -> int:
    """Bytes that a batch may take in a seat with so much memory."""
    return WITHOUT_LIMIT if memory is None else memory // SHARE


def chosen(tried: Sequence[Tried], limit: int | None) -> int:
    """The largest of those that are as fast as the fastest; the smallest where none fits."""
    fitting = [one for one in tried if limit is None or one.memory <= limit] or [tried[0]]
    fastest = max(one.speed for one in fitting)
    return max(one.size for one in fitting if one.speed >= fastest * NOISE)


def even(rows: int, at_most: int) -> int:
    """The size with which `rows` are cut into equal batches, so that little is added to fill the last one."""
    batches = max(1, -(-rows // max(1, at_most)))
    return max(1, -(-rows // batches))
