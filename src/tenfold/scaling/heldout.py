"""How well cells of a grid are predicted by fits that had not seen them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from tenfold.scaling.cells import Cell, Setting
from tenfold.scaling.curves import ways
from tenfold.scaling.surface import Surface, identified, surface
from tenfold.scaling.units import percent


@dataclass(frozen=True, slots=True)
class Held:
    """A cell that a fit had not seen, and what the fit said about it."""

    setting: Setting
    """Which."""
    measured: float
    """Seconds."""
    predicted: float
    """Seconds."""

    @property
    def error(self) -> float:
        """Relative."""
        return abs(self.predicted / self.measured - 1)


@dataclass(frozen=True, slots=True)
class Heldout:
    """How well cells are predicted by fits that had not seen them."""

    cells: tuple[Held, ...]
    """Each of them."""

    @property
    def error(self) -> float:
        """The mean relative error; not a number where nothing could be held out."""
        return float(numpy.mean([held.error for held in self.cells])) if self.cells else math.nan

    def __str__(self) -> str:
        if not self.cells:
            return "too few cells to hold one out"
        return (
            f"{len(self.cells)} cells that the fit had not seen are predicted {percent(self.error, 1)} wrong on average"
        )


def heldout(cells: Sequence[Cell], held: Sequence[Setting] | None = None) -> Heldout:
    """Fit on part of the grid and predict the rest: the cells in `held`, or each one by a fit of all others.

    Each way and engine has a fit of its own. Where `held` is not given, cells at the edge are held out, too, for that
    is where predictions are wanted.
    """
    found: list[Held] = []
    for own in ways(cells).values():
        found += _each(own) if held is None else _some(own, held)
    return Heldout(tuple(found))


def _some(cells: Sequence[Cell], held: Sequence[Setting]) -> list[Held]:
    rest = [cell for cell in cells if cell.setting not in held]
    wanted = [cell for cell in cells if cell.setting in held]
    return [_held(surface(rest), cell) for cell in wanted] if rest else []


def _each(cells: Sequence[Cell]) -> list[Held]:
    if len(cells) <= max(identified([cell.setting for cell in cells]), 2):
        return []
    return [_held(surface([other for other in cells if other is not cell]), cell) for cell in cells]


def _held(fitted: Surface, cell: Cell) -> Held:
    return Held(cell.setting, cell.seconds, fitted.seconds(cell.setting))
