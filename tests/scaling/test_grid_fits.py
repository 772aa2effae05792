"""Break-even sizes, and cells that are predicted by fits that had not seen them."""

from __future__ import annotations

import math

import grids
import numpy
import pytest

from tenfold.errors import BadCall
from tenfold.scaling.breakeven import breakeven
from tenfold.scaling.cells import Cell, Setting
from tenfold.scaling.heldout import heldout
from tenfold.scaling.surface import surface

SIZES = (1_000, 10_000, 100_000)


def real(workers: int, size: int) -> float:
    return 0.05 + 0.02 * workers + size * (1e-4 / workers + 2e-6)


def test_break_even_sizes_are_found() -> None:
    found = breakeven(grids.cells(real, (1, 2, 4), SIZES, noise=0.005))
    for workers in (2, 4):
        expected = 0.02 * (workers - 1) / (1e-4 - 1e-4 / workers)
        assert found[workers] == pytest.approx(expected, rel=0.3)


def test_never_and_always() -> None:
    slower = grids.cells(lambda n, size: 1 + 0.001 * size * n, (1, 2), SIZES, noise=0)
    assert breakeven(slower) == {2: math.inf}
    faster = grids.cells(lambda n, size: (1 + 0.001 * size) / n, (1, 2), SIZES, noise=0)
    assert breakeven(faster) == {2: 0.0}


def test_what_cannot_be_told_is_left_out() -> None:
    assert breakeven(grids.cells(real, (1, 2), (100,))) == {}
    assert breakeven([]) == {}
    assert breakeven([Cell(Setting(1, 100), (), "failed")]) == {}
    two = grids.cells(real, (1, 2), SIZES, engine="local") + grids.cells(real, (1, 2), SIZES, engine="dask")
    with pytest.raises(BadCall, match="2 ways"):
        breakeven(two)


def test_cells_that_were_held_out_are_predicted() -> None:
    found = heldout(grids.cells(real, (1, 2, 4, 8), SIZES))
    assert len(found.cells) == 12
    assert found.error < 0.05
    assert "12 cells" in str(found)


def test_the_largest_cells_are_predicted_from_the_smaller_ones() -> None:
    grid = grids.cells(real, (1, 2, 3, 4, 8), SIZES)
    held = [cell.setting for cell in grid if cell.setting.workers == 8]
    found = heldout(grid, held)
    assert [one.setting for one in found.cells] == held
    assert found.error < 0.1


def test_each_engine_has_a_fit_of_its_own() -> None:
    ours = grids.cells(real, (1, 2, 4), SIZES, engine="local")
    theirs = grids.cells(lambda n, size: 5 * real(n, size), (1, 2, 4), SIZES, engine="dask")
    found = heldout(ours + theirs)
    assert len(found.cells) == 18
    assert found.error < 0.05


def test_too_few_cells_are_told() -> None:
    assert math.isnan(heldout(grids.cells(real, (1, 2), (100,))).error)
    assert "too few" in str(heldout([]))
    with pytest.raises(BadCall, match="nothing to fit"):
        surface([])


def test_one_size_needs_none() -> None:
    random = numpy.random.default_rng(0)
    grid = [
        Cell(Setting(n), tuple(grids.cells(real, (n,), (10_000,), noise=float(random.random()) / 100)[0].repeats))
        for n in (1, 2, 3, 4, 6, 8)
    ]
    assert heldout(grid).error < 0.1
