"""Sources that are stored in bands: chunks, row groups, blocks, of which nothing can be had without decoding all.

Parts are often shorter than a band, and a worker takes them in order; so it keeps the band that it has decoded last.
That one is all that a source has in memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from tenfold.data import stacking
from tenfold.data.source import Part, Rows, Source, step_of

LARGE = 64 << 20
"""Bytes of a band above which it is not kept: then only what is asked for is taken out of it, each time anew."""


class Banded(Source):
    """A source that knows where its bands begin."""

    def __init__(self, edges: Any) -> None:
        """`edges`: the first sample of each band, and after the last the length."""
        self._edges = np.asarray(edges, dtype=np.int64)
        self._kept: tuple[int, Rows] | None = None

    @abstractmethod
    def band(self, number: int) -> Rows:
        """All samples of a band."""

    @property
    def length(self) -> int:
        return int(self._edges[-1])

    def read(self, start: int, stop: int) -> Rows:
        pieces = [self.within(number, low, high) for number, low, high in self.bands(start, stop)]
        return stacking.joined(pieces)

    def bands(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Which bands these samples are in, and from where to where within each."""
        number = int(np.searchsorted(self._edges, start, side="right")) - 1
        while number < len(self._edges) - 1 and self._edges[number] < stop:
            first, after = int(self._edges[number]), int(self._edges[number + 1])
            if after > first:
                yield number, max(start, first) - first, min(stop, after) - first
            number += 1

    def within(self, number: int, low: int, high: int) -> Rows:
        """Some samples of a band."""
        kept = self._kept  # another thread may change it meanwhile
        if kept is None or kept[0] != number:
            self._kept = None  # so that there are never two
            kept = self._kept = number, self.band(number)
        return stacking.sliced(kept[1], low, high)

    def parts(self) -> Iterator[Part]:
        """Whole bands, as many as make up a part; then none is decoded twice. Those that are longer are cut."""
        step = step_of(self.length, self.sample_bytes)
        longest = int(np.diff(self._edges).max())
        if longest > step:
            yield from super().parts()
            return
        start = 0
        for stop in self._edges[1:].tolist():
            following = int(self._edges[min(np.searchsorted(self._edges, stop) + 1, len(self._edges) - 1)])
            if stop > start and (following - start > step or stop == self.length):
                yield Part(start, stop, self.stamp(start, stop))
                start = stop

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


class Chunked(Banded):
    """Bands of equal length, of a store that takes slices by itself but decodes whole chunks for them."""

    def __init__(self, length: int, chunk: int) -> None:
        chunk = max(1, min(chunk, length))
        super().__init__([*range(0, length, chunk), length])
        self._chunk = chunk

    @abstractmethod
    def slice(self, start: int, stop: int) -> Rows:
        """These samples, as the store gives them."""

    def band(self, number: int) -> Rows:
        return self.slice(int(self._edges[number]), int(self._edges[number + 1]))

    def read(self, start: int, stop: int) -> Rows:
        if self._chunk == 1 or self._chunk * self.sample_bytes > LARGE or stop - start >= self._chunk:
            return self.slice(start, stop)
        return super().read(start, stop)
