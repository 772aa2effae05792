"""Lists of files or addresses, which the user's function opens itself: a sample is a name."""

from __future__ import annotations

from tenfold.data.listed import Listed
from tenfold.data.source import Rows


class Names(Listed):
    """Names as they were given."""

    @property
    def sample_bytes(self) -> int:
        return 256

    def read(self, start: int, stop: int) -> Rows:
        return self.names[start:stop]

    def describe(self) -> str:
        return f"{self.length} names, from {self.names[0]!r} to {self.names[-1]!r}"
