"""Values of a call without a run folder: kept in memory as they came, and opened when they are first read."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any


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
