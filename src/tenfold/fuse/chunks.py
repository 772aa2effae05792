"""How many models are trained at a time: what both workshops say about it, and how much memory they may take."""

from __future__ import annotations

from tenfold import machine
from tenfold.work.here import here

MEMORY_SHARE = 0.25  # of the seat's memory that the models in training may take at once


def even(count: int, most: int) -> int:
    """The size of chunks of at most `most` that fills the last one best."""
    return -(-count // -(-count // most))


def room() -> float:
    """Bytes that the models in training may take in this worker's memory."""
    limit = here().memory
    found = machine.look()
    return MEMORY_SHARE * (limit if limit is not None else found.memory * here().cpus / max(1.0, found.cpus))


def words(count: int, size: int) -> str:
    """For people: "64 models, 8 at a time"."""
    models = f"{count} model" + ("s" if count > 1 else "")
    return f"{models}, {at_a_time(size)}" if count > 1 else models


def at_a_time(size: int) -> str:
    return "one at a time" if size == 1 else f"{size} at a time"
