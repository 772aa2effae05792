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
SMALL = 64 << 10
"""Bytes below which it is not worth it."""


class _Keeping(Source):
    """What keeps the band that was read last."""

    _kept: tuple[int, Rows] | None = None

    @abstractmethod
    def band(self, number: int) -> Rows:
        """All samples of a band."""

    @abstractmethod
    def bands(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Which bands these samples are in, and from where to where within each."""

    def read(self, start: int, stop: int) -> Rows:
        return stacking.joined([self.within(*place) for place in self.bands(start, stop)])

    def within(self, number: int, low: int, high: int) -> Rows:
        """Some samples of a band."""
        kept = self._kept  # another thread may change it meanwhile
        if kept is None or kept[0] != number:
            self._kept = None  # so that there are never two
            kept = self._kept = number, self.band(number)
        return stacking.sliced(kept[1], low, high)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


class Banded(_Keeping):
    """A source that knows where its bands begin."""

    def __init__(self, edges: Any) -> None:
        """`edges`: the first sample of each band, and after the last the length."""
        self._edges = np.asarray(edges, dtype=np.int64)

    @property
    def length(self) -> int:
        return int(self._edges[-1])

    def bands(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        number = int(np.searchsorted(self._edges, start, side="right")) - 1
        while number < len(self._edges) - 1 and self._edges[number] < stop:
            first, after = int(self._edges[number]), int(self._edges[number + 1])
            if after > first:
                yield number, max(start, first) - first, min(stop, after) - first
            number += 1

    def parts(self) -> Iterator[Part]:
        """Whole bands, as many as make up a part; then none is decoded twice. Those that are longer are cut."""
        step = step_of(self.length, self.sample_bytes)
        if int(np.diff(self._edges).max()) > step:
            yield from super().parts()
            return
        start = 0
        for stop, following in zip(self._edges[1:].tolist(), [*self._edges[2:].tolist(), None], strict=True):
            if stop > start and (following is None or following - start > step):
                yield Part(start, stop, self.stamp(start, stop))
                start = stop


class Chunked(_Keeping):
    """Bands of equal length, of a store that takes slices by itself but decodes whole chunks for them."""

    def __init__(self, length: int, chunk: int | None) -> None:
        """`chunk`: samples that are decoded together; None where nothing is."""
        self._length = length
        self._chunk = chunk or 1

    @abstractmethod
    def slice(self, start: int, stop: int) -> Rows:
        """These samples, as the store gives them."""

    @property
    def length(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> Rows:
        worth = SMALL <= self._chunk * self.sample_bytes <= LARGE
        return super().read(start, stop) if worth and stop - start < self._chunk else self.slice(start, stop)

    def bands(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        for number in range(start // self._chunk, -(-stop // self._chunk)):
            first = number * self._chunk
            yield number, max(start - first, 0), min(stop - first, self._chunk)

    def band(self, number: int) -> Rows:
        return self.slice(number * self._chunk, min((number + 1) * self._chunk, self._length))

    def parts(self) -> Iterator[Part]:
        """Whole chunks, if they are shorter than a part."""
        step = step_of(self._length, self.sample_bytes)
        step = max(step - step % self._chunk, min(step, self._chunk))
        for start in range(0, self._length, step):
            stop = min(start + step, self._length)
            yield Part(start, stop, self.stamp(start, stop))
