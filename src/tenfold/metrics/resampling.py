"""The bootstrap: how often a row is drawn in a replicate, known from its number alone.

Each row is drawn Poisson(1) times, which for many rows is drawing as many as there are with replacement. The number
comes from hashing (seed, replicate, row), so it is the same however rows are cut into blocks, on every engine, and at
any later time.
"""

from __future__ import annotations

import math

import numpy

from tenfold.metrics.port import Array

_STEPS = 20
"""Poisson(1) is above that with a probability of 1e-20, less than one in 2**64."""
_SHARES = [sum(math.exp(-1) / math.factorial(n) for n in range(upto + 1)) for upto in range(_STEPS)]
_BOUNDS = numpy.array([min(int(2**64 * share), 2**64 - 1) for share in _SHARES], dtype=numpy.uint64)
_GOLDEN = numpy.uint64(0x9E3779B97F4A7C15)


def keys(seed: int, replicates: int) -> Array:
    """A number of 64 bits for each replicate."""
    return numpy.random.SeedSequence(seed).generate_state(replicates, numpy.uint64)


def drawn(rows: Array, key: Array) -> Array:
    """How often each of these rows is drawn, as float64. `key` is of one replicate, or broadcasts with rows."""
    mixed = _mixed(_mixed((rows.astype(numpy.uint64) + numpy.uint64(1)) * _GOLDEN) ^ key)
    return numpy.searchsorted(_BOUNDS, mixed, side="right").astype(numpy.float64)


def _mixed(number: Array) -> Array:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each bit depends on all."""
    number = (number ^ (number >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return numpy.asarray(number ^ (number >> numpy.uint64(31)))
