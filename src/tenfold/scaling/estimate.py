"""How sure a number is: estimates with intervals, and the bootstrap that all fits take them from.

    repeats of a cell ─> its centre ─> a fit ─> what is left over ─> centres as they might have been ─> fits of those

A repeat differs from its cell's centre by chance (drawn from all cells, so that three repeats are not too few), and a
centre from the fit by more than chance where the model is wrong. Both are drawn anew for each replicate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[Any]

REPLICATES = 200
"""Of a bootstrap: the ends of a 95 % interval are then the fifth from each side."""
LEVEL = (2.5, 97.5)
"""Percentiles between which an interval lies."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and where it lies with 95 %."""

    value: float
    """The best guess."""
    low: float
    """The lower end."""
    high: float
    """The upper end."""

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


def interval(draws: Array) -> tuple[float, float]:
    """Where the middle 95 % of them lie."""
    known = draws[~numpy.isnan(draws)]
    if not len(known):
        return math.nan, math.nan
    # Of several that are infinite, a percentile between two is not a number; the nearest one is.
    low, high = numpy.percentile(known, LEVEL, method="nearest")
    return float(low), float(high)


def centres(repeats: Sequence[Sequence[float]]) -> Array:
    """The median of each cell: one slow repeat does not move it."""
    return numpy.array([float(numpy.median(numpy.asarray(cell, dtype=float))) for cell in repeats])


def replicates(repeats: Sequence[Sequence[float]], fitted: Array, *, parameters: int, seed: int) -> Array:
    """Centres as they might have been: a row for each of `REPLICATES`, a column for each cell."""
    random = numpy.random.default_rng(seed)
    own = centres(repeats)
    chance = _chance(repeats, own)
    drawn = numpy.column_stack(
        [_medians(random.choice(chance, (REPLICATES, len(cell)))) for cell in repeats]  # relative, around 0
    )
    beyond = _beyond(own / fitted - 1, float(drawn.var()), parameters)
    if len(beyond):
        drawn = drawn + random.choice(beyond, drawn.shape) * random.choice((-1.0, 1.0), drawn.shape)
    found: Array = fitted * numpy.maximum(1 + drawn, 0.01)  # times stay positive, however wild the repeats
    return found


def _chance(repeats: Sequence[Sequence[float]], own: Array) -> Array:
    """By how much repeats differ from their cell's centre, as a share of it, over all cells."""
    found = [
        (numpy.asarray(cell, dtype=float) / centre - 1) * math.sqrt(len(cell) / (len(cell) - 1))
        for cell, centre in zip(repeats, own, strict=True)
        if len(cell) > 1
    ]
    return numpy.concatenate(found) if found else numpy.zeros(1)


def _medians(rows: Array) -> Array:
    found: Array = numpy.median(rows, axis=1)
    return found


def _beyond(left: Array, chance: float, parameters: int) -> Array:
    """What is left over between centres and fit, without what chance explains; nothing where no cell can tell."""
    free = len(left) - parameters
    if free <= 0:
        return numpy.zeros(0)
    left = left * math.sqrt(len(left) / free)
    spread = float((left**2).mean())
    return left * math.sqrt(1 - chance / spread) if spread > chance else numpy.zeros(0)
