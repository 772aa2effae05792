"""Tasks that were done one after the other by one worker: as they are written, and as their times are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive tasks that were done by one worker in one go."""

    first: int
    """Index of the first."""
    seconds: Sequence[float]
    """How long each took; as many as there are tasks."""
    peak: int
    """Most resident memory of the worker so far."""
    seat: int
    """Where."""
    worker: str
    """Who."""
    attempts: int
    """How often each was started."""
    items: Sequence[Any]
    """What they were given."""
    digests: bytes = b""
    """Of the items, one after the other; empty where nothing will be resumed."""


@dataclass(frozen=True, slots=True)
class Span:
    """When and where the tasks of a block ran."""

    first: int
    """Index of the first."""
    ok: bool
    """Whether they returned values."""
    seconds: Sequence[float]
    """How long each took; as many as there are tasks."""
    started: float
    """When the first began, in seconds since the epoch; the others follow without a gap."""
    peak: int
    """Most resident memory of their worker so far."""
    seat: int
    """Where; -1 where they were given none."""
    attempts: int
    """How often each was started."""


def apart(spells: Sequence[tuple[int, float, float]]) -> list[tuple[float, float]]:
    """(start, stop) of each, from its seat, start and stop: in a seat, one task runs at a time.

    A journal knows when it was told of a task, and how long that took. What is told of at one moment (models that were
    trained together, each with its share of the time) had ended one after the other before that.
    """
    found: list[tuple[float, float]] = [(0.0, 0.0)] * len(spells)
    limits: dict[int, float] = {}
    for place in sorted(range(len(spells)), key=lambda place: spells[place][1:], reverse=True):
        seat, start, stop = spells[place]
        end = min(stop, limits.get(seat, math.inf))
        found[place] = (end - (stop - start), end)
        limits[seat] = found[place][0]
    return found
