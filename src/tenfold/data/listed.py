"""Files one by one: what lists of names and folders of images have in common.

Parts end where a file's name says so, and not after so many files: one that is added or taken away changes the part
that it falls into, and no other.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np

from tenfold.data import stamps
from tenfold.data.source import PART_BYTES, PARTS, Part, Source

_UNKNOWN, _ADDRESS = -1, -2  # in place of a size


class Listed(Source):
    """A source that has a file for each sample."""

    def __init__(self, names: Sequence[str], root: str | None) -> None:
        """`names` below `root`. Without one they are names as the caller has given them, of files or of others."""
        self.names = list(names)
        self.root = root
        facts = [_facts(self.place(number)) for number in range(len(self.names))]
        self._facts = np.array(facts, dtype=np.int64).reshape(-1, 2)

    @property
    def gone(self) -> list[str]:
        """Names that are of no file, and no addresses either."""
        return [self.names[number] for number in np.flatnonzero(self._facts[:, 0] == _UNKNOWN).tolist()]

    def place(self, number: int) -> str:
        """Where the file is."""
        return os.path.join(self.root, self.names[number]) if self.root is not None else self.names[number]

    @property
    def length(self) -> int:
        return len(self.names)

    def stamp(self, start: int, stop: int) -> str:
        return stamps.of_texts("\0".join(self.names[start:stop]), self._facts[start:stop].tolist())

    def parts(self) -> Iterator[Part]:
        if len(set(self.names)) < len(self.names):  # of few names, most have no mark, and those that have it come often
            yield from super().parts()
            return
        start = 0
        most = 1 << (max(1, PART_BYTES // max(1, self.sample_bytes)).bit_length() - 1)
        every = min(cut_every(len(self.names)), most)
        for after, name in enumerate(self.names, 1):
            if every == 1 or after == len(self.names) or after - start >= most or _number(name) % every == 0:
                yield Part(start, after, self.stamp(start, after))
                start = after


def is_address(text: str) -> bool:
    """Whether something like https://... or s3://..."""
    return "://" in text and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) is not None


def cut_every(files: int) -> int:
    """How many files a part has on average: a power of two, so that it seldom changes when files are added."""
    return 1 << max(0, -(-files // PARTS) - 1).bit_length()


def _number(name: str) -> int:
    data = name.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _facts(path: str) -> tuple[int, int]:
    """Size and time; what is no file here is known by its name alone."""
    if is_address(path):
        return _ADDRESS, 0
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return _UNKNOWN, 0
    return found.st_size, found.st_mtime_ns
