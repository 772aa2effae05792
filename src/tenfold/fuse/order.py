"""In which order a model sees its rows: from its seed, the epoch and the block alone, however it is trained."""

from __future__ import annotations

import numpy


def blocks(count: int, epoch: int, *, shuffle: bool) -> list[int]:
    """In which order blocks are read: the same for all models, so that one read feeds them all."""
    if not shuffle or count == 1:
        return list(range(count))
    return [int(place) for place in numpy.random.default_rng([epoch, count]).permutation(count)]


def rows(count: int, seed: int, epoch: int, block: int, *, shuffle: bool) -> numpy.ndarray:
    """The rows of one block, as one model sees them."""
    if not shuffle:
        return numpy.arange(count, dtype=numpy.int32)
    return numpy.random.default_rng([seed, epoch, block]).permutation(count).astype(numpy.int32)
