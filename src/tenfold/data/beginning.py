"""The first samples of a source, as a source: for those who want to know how long more of them would take."""

from __future__ import annotations

from tenfold.data.source import Rows, Source


class Beginning(Source):
    """So many samples of another one, from its beginning."""

    def __init__(self, whole: Source, count: int) -> None:
        self._whole = whole
        self._count = count

    @property
    def length(self) -> int:
        return self._count

    def read(self, start: int, stop: int) -> Rows:
        return self._whole.read(start, stop)

    def view(self, start: int, stop: int) -> Rows:
        return self._whole.view(start, stop)

    def stamp(self, start: int, stop: int) -> str:
        return self._whole.stamp(start, stop)

    @property
    def sample_bytes(self) -> int:
        return self._whole.sample_bytes

    def describe(self) -> str:
        return f"the first {self._count} of {self._whole.describe()}"
