"""Which tasks travel together when a function takes several at once. Pure: from what they look like and the seats."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import pairwise

MOST = 256
"""Tasks in a group: what is lost at once when its worker is killed, and what comes back at once."""


def cut(likeness: Mapping[int, Hashable], workers: int) -> list[list[int]]:
    """Groups of tasks that look alike, the largest first.

    Every worker that sees a kind compiles it. So where there are kinds enough to keep everybody busy, each goes to one
    worker; otherwise each is shared out evenly.
    """
    kinds: dict[Hashable, list[int]] = {}
    for index, kind in likeness.items():
        kinds.setdefault(kind, []).append(index)
    parts = 1 if len(kinds) >= 2 * workers else workers
    found = [piece for indices in kinds.values() for piece in _pieces(indices, parts)]
    return sorted(found, key=len, reverse=True)


def _pieces(indices: list[int], parts: int) -> list[list[int]]:
    """Neighbours stay together, because what was finished is kept in blocks of them."""
    parts = max(min(parts, len(indices)), -(-len(indices) // MOST))
    ends = [len(indices) * part // parts for part in range(parts + 1)]
    return [indices[start:stop] for start, stop in pairwise(ends)]
