"""The size of the data above which more workers pay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

from tenfold.errors import BadCall
from tenfold.scaling.cells import Cell
from tenfold.scaling.curves import measured, ways
from tenfold.scaling.fitting import nonnegative


def breakeven(cells: Sequence[Cell]) -> dict[int, float]:
    """For each number of workers, the size above which it is faster than one worker (or the fewest measured).

    Seconds are taken as a line over the size, for each number of workers by itself. 0 where it is always faster, `inf`
    where it never is. Numbers of workers with fewer than two sizes are left out. All cells are of one way and engine.
    """
    if len(ways(cells)) > 1:
        raise BadCall(f"breakeven: cells of {len(ways(cells))} ways or engines; give those of one")
    lines = {count: line for count in _counts(cells) if (line := _line(cells, count)) is not None}
    if not lines:
        return {}
    least = min(lines)
    return {count: _crossing(lines[least], line) for count, line in sorted(lines.items()) if count != least}


def _counts(cells: Sequence[Cell]) -> list[int]:
    return sorted({cell.setting.workers for cell in measured(cells)})


def _line(cells: Sequence[Cell], workers: int) -> tuple[float, float] | None:
    """(seconds at size 0, seconds for each further unit of size)."""
    own = [cell for cell in measured(cells) if cell.setting.workers == workers and cell.setting.size is not None]
    sizes = numpy.array([float(cell.setting.size or 0) for cell in own])
    if len(set(sizes)) < 2:
        return None
    start, slope = nonnegative(
        numpy.column_stack([numpy.ones_like(sizes), sizes]), numpy.array([c.seconds for c in own])
    )
    return float(start), float(slope)


def _crossing(one: tuple[float, float], several: tuple[float, float]) -> float:
    saved = one[1] - several[1]
    extra = several[0] - one[0]
    if saved > 0:
        return max(0.0, extra / saved)
    return 0.0 if saved == 0 and extra < 0 else math.inf
