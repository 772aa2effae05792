"""Seconds over workers and size at once, so that cells that were not measured can be told from those that were.

Work that is done once, or once for each worker, and work for every unit of size, of which a part is divided among the
workers, a part is not, and a part grows with them, as workers wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from tenfold.errors import BadCall
from tenfold.scaling.cells import Cell, Setting
from tenfold.scaling.curves import measured
from tenfold.scaling.estimate import Array
from tenfold.scaling.fitting import nonnegative

TERMS = ("once", "each worker", "divided", "undivided", "growing")
"""Of the time: the last three for each unit of size."""


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Fitted to the cells of one way and engine."""

    factors: Array
    """Seconds for each of `TERMS`."""

    def seconds(self, setting: Setting) -> float:
        """How long a call with this setting takes."""
        return float((_terms([setting]) @ self.factors)[0])


def surface(cells: Sequence[Cell]) -> Surface:
    """The best fit in relative error."""
    there = measured(cells)
    if not there:
        raise BadCall("no cell was measured, so there is nothing to fit")
    return Surface(nonnegative(_terms([cell.setting for cell in there]), numpy.array([cell.seconds for cell in there])))


def identified(settings: Sequence[Setting]) -> int:
    """How many of the terms these settings can tell from each other."""
    terms = _terms(settings) if settings else numpy.zeros((0, len(TERMS)))
    return (
        int(numpy.linalg.matrix_rank(terms / numpy.maximum(terms.max(axis=0, initial=0), 1e-300))) if len(terms) else 0
    )


def _terms(settings: Sequence[Setting]) -> Array:
    workers = numpy.array([float(setting.workers) for setting in settings])
    sizes = numpy.array([1.0 if setting.size is None else float(setting.size) for setting in settings])
    ones = numpy.ones_like(workers)
    return numpy.column_stack([ones, workers, sizes / workers, sizes, sizes * (workers - 1)])
