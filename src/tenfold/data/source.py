"""What a source is: data that can be read in slices without loading it whole.

Made by the caller, who checks it; pickled to workers, who read it. So a source holds names and shapes, and opens files
when it is first read in a process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Rows = Any
"""Samples read at once: an array (a sample is a row of it), a tuple or dict of arrays of equal length, nested as the
source has them (a sample is the same with a row of each), or a list of samples that are not arrays of one shape."""

PARTS = 250
"""Into about how many parts a source is cut: few enough to be handed out at no cost, enough to be shared out evenly."""
PART_BYTES = 16 << 20
"""Above which a part is not read at once, so that memory does not depend on the length of the source."""
STREAMED_PARTS, STREAMED_BYTES = 125, 64 << 20
"""The same for parts of which a few samples are read at a time: to hand one out costs up to a millisecond in all."""


@dataclass(frozen=True, slots=True)
class Part:
    """Samples that are worked on together."""

    start: int
    """The first sample."""
    stop: int
    """After the last."""
    key: str | None
    """What is equal as long as their content is; None where that is not known before they are read."""
    rows: Rows = None
    """The samples themselves, where a source can only be read from its beginning; such parts are sent to workers."""


class Source(ABC):
    """The contract. `length` is None for a stream: then `parts` has the samples in it, and `read` is never called."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """How many samples there are."""

    @property
    def expected(self) -> int | None:
        """How many there will be, as far as it knows: the length, and of a stream what it says of itself."""
        return self.length

    @abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """The samples from `start` to before `stop`, and nothing else. Called in any process, in any order."""

    def view(self, start: int, stop: int) -> Rows:
        """The same for those who change nothing of it: where it lies, if that is possible, instead of a copy."""
        return self.read(start, stop)

    @abstractmethod
    def stamp(self, start: int, stop: int) -> str:
        """What changes when the content of these samples does: a digest, or a file's name, size and time."""

    @property
    @abstractmethod
    def sample_bytes(self) -> int:
        """About how much memory a sample takes."""

    @property
    def is_flat(self) -> bool:
        """Any slice costs what its bytes do: nothing is decoded for it that lies around it."""
        return False

    @abstractmethod
    def describe(self) -> str:
        """For people: "20000 images in photos/"."""

    def parts(self) -> Iterator[Part]:
        """All samples, in order, cut for workers. The same cuts for the same data, on every machine."""
        return cut(self)

    def blocks(self, multiple: int) -> Iterator[Part]:
        """The same of a stream, in parts that are multiples of that."""
        return self.parts()


def cut(source: Source, *, least: int = 1, multiple: int = 1, streamed: bool = False) -> Iterator[Part]:
    """All samples in parts of one size: at least `least` where that fits in memory, and a multiple of `multiple`.

    `streamed`: a part is not read at once, so that it may be longer.
    """
    length = source.length
    if length is None:
        yield from source.blocks(multiple)
        return
    step = max(1, step_of(length, source.sample_bytes, least, streamed=streamed) // multiple) * multiple
    for start in range(0, length, step):
        stop = min(start + step, length)
        yield Part(start, stop, source.stamp(start, stop))


def count(rows: Rows) -> int:
    """How many samples these are."""
    if isinstance(rows, Mapping):
        return count(next(iter(rows.values())))
    if isinstance(rows, tuple):
        return count(rows[0])
    return len(rows)


def samples(rows: Rows) -> Iterator[Any]:
    """All of them, one by one."""
    if isinstance(rows, Mapping):
        columns = [samples(value) for value in rows.values()]
        return (dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True))
    if isinstance(rows, tuple):
        return zip(*map(samples, rows), strict=True)
    return iter(rows)


def step_of(length: int, sample_bytes: int, least: int = 1, *, streamed: bool = False) -> int:
    """How many samples go together: a power of two, so that some more samples leave the parts before them as they are.

    Of a source that is cut by its bytes, the length does not matter anyway.
    """
    even = 1 << max(0, round(math.log2(max(1, length) / (STREAMED_PARTS if streamed else PARTS))))
    most = (STREAMED_BYTES if streamed else PART_BYTES) // max(1, sample_bytes)
    # Whole batches of a model: to fill up the last one of each part would be a copy of it, 7 % of a small model's time.
    return max(1, min(max(least, even), most - most % least if most > least else most))
