"""What `tenfold.measure` returns: the cells of the grid, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.scaling.cells import Cell


class ScalingStudy:
    """How something scales."""

    def __init__(self, cells: Sequence[Cell], *, batch: int | None = None, name: str = "") -> None:
        self.cells = tuple(cells)
        self.batch = batch
        self.name = name
