"""Several sources of one form, one after the other: the files of a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tenfold.data import stacking, stamps
from tenfold.data.source import Part, Rows, Source, step_of


class Chained(Source):
    """As long as all of them together. Whoever makes it has seen to it that they are of one form."""

    def __init__(self, members: Sequence[Source], text: str) -> None:
        self._members = list(members)
        self._text = text
        self._edges = np.array([0, *itertools.accumulate(member.length or 0 for member in members)], dtype=np.int64)

    @property
    def length(self) -> int:
        return int(self._edges[-1])

    @property
    def sample_bytes(self) -> int:
        return max(member.sample_bytes for member in self._members)

    def read(self, start: int, stop: int) -> Rows:
        return stacking.joined([member.read(low, high) for member, low, high in self._within(start, stop)])

    def stamp(self, start: int, stop: int) -> str:
        found = [member.stamp(low, high) for member, low, high in self._within(start, stop)]
        return found[0] if len(found) == 1 else stamps.of_texts(*found)

    def _within(self, start: int, stop: int) -> Iterator[tuple[Source, int, int]]:
        number = max(0, int(np.searchsorted(self._edges, start, side="right")) - 1)
        for member, first, after in zip(
            self._members[number:], self._edges[number:].tolist(), self._edges[number + 1 :].tolist(), strict=False
        ):
            if first >= stop:
                return
            if after > first:
                yield member, max(start, first) - first, min(stop, after) - first

    def parts(self) -> Iterator[Part]:
        """Each member is cut for itself, so that one more leaves the parts of the others as they are."""
        step = 1 << (step_of(self.length, self.sample_bytes) - 1).bit_length()
        for member, first in zip(self._members, self._edges.tolist(), strict=False):
            length = member.length or 0
            for start in range(0, length, step):
                stop = min(start + step, length)
                yield Part(first + start, first + stop, member.stamp(start, stop))

    def describe(self) -> str:
        return f"{self.length} {self._text}"
