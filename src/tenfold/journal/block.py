"""Tasks that were done one after the other by one worker: as they are written, and as their times are read."""

from __future__ import annotations

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
