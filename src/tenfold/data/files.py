"""Lists of files or addresses, which the user's function opens itself: a sample is a name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tenfold.data.listed import Listed
from tenfold.data.source import PART_BYTES, Rows

MOST = 256
"""Names of a part: what a function makes of each of them may be large."""


class Names(Listed):
    """Names as they were given, texts or paths."""

    def __init__(self, given: Sequence[str | os.PathLike[str]]) -> None:
        super().__init__([os.fspath(one) for one in given], None)
        self._given = list(given)

    @property
    def sample_bytes(self) -> int:
        return PART_BYTES // MOST

    def read(self, start: int, stop: int) -> Rows:
        return self._given[start:stop]

    def describe(self) -> str:
        return f"{self.length} names, from {self.names[0]!r} to {self.names[-1]!r}"
