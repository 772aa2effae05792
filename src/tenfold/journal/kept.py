"""Values of a call without a run folder: kept as they came until the call's results are gone, and opened when read.

`Memory` is for most calls. `Shelf` is for those whose values may be more than memory holds and are read once, in order.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tenfold.work import parcel


class Keeping(Protocol):
    """Blocks of values by the index of their first."""

    def add_values(self, first: int, bodies: Sequence[bytes]) -> None:
        """The values of several tasks, as their pickles."""

    def add_large(self, first: int, memory: parcel.Buffer) -> None:
        """One value, as its parcel."""

    def values(self, first: int) -> Sequence[Any]:
        """All of a block."""

    def clear(self) -> None:
        """Nobody will ask any more."""


class Kept:
    """The pickles of some values. Opening one frees its pickle, so that both are never in memory for all of them."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._entries: list[bytes | tuple[Any]] = list(bodies)  # a pickle, or the value in a tuple

    def values(self) -> list[Any]:
        entries = self._entries
        for place, entry in enumerate(entries):
            if isinstance(entry, bytes):
                entries[place] = (pickle.loads(entry),)
                del entry
        return [entry[0] for entry in entries]


class Memory:
    """Where they are."""

    def __init__(self) -> None:
        self._blocks: dict[int, parcel.Buffer | Kept] = {}

    def add_values(self, first: int, bodies: Sequence[bytes]) -> None:
        self._blocks[first] = Kept(bodies)

    def add_large(self, first: int, memory: parcel.Buffer) -> None:
        self._blocks[first] = memory

    def values(self, first: int) -> Sequence[Any]:
        kept = self._blocks[first]
        if isinstance(kept, Kept):
            return kept.values()
        return [parcel.unpack(bytearray(kept) if isinstance(kept, bytes) else kept)]

    def clear(self) -> None:
        self._blocks.clear()


class Shelf:
    """One after the other in a file without a name, of which nothing is left however the caller ends.

    A value is opened anew each time, and not kept.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="tenfold-")  # noqa: SIM115  # closed by `clear`
        self._places: dict[int, _Place] = {}

    def add_values(self, first: int, bodies: Sequence[bytes]) -> None:
        self._write(first, bodies, len(bodies))

    def add_large(self, first: int, memory: parcel.Buffer) -> None:
        self._write(first, [memory], None)

    def values(self, first: int) -> Sequence[Any]:
        found = self._read(self._places[first])
        count = self._places[first].count
        return [parcel.unpack(found)] if count is None else parcel.concatenated(found, count)

    def clear(self) -> None:
        self._file.close()

    def _write(self, first: int, pieces: Sequence[parcel.Buffer], count: int | None) -> None:
        start = self._file.seek(0, os.SEEK_END)
        for piece in pieces:
            self._file.write(piece)
        self._file.flush()  # those who read have places of their own in it
        self._places[first] = _Place(start, self._file.tell() - start, count)

    def _read(self, place: _Place) -> bytearray:
        memory = bytearray(place.size)
        view, done = memoryview(memory), 0
        while done < place.size:
            done += os.preadv(self._file.fileno(), [view[done:]], place.start + done)
        return memory


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a block lies on the shelf."""

    start: int
    """Its first byte."""
    size: int
    """How many bytes."""
    count: int | None
    """How many pickles these are; None for a parcel."""
