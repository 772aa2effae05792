"""How large a batch is, from invented figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenfold.models import sizing
from tenfold.models.sizing import ANY, COMPILED
from tenfold.plan import batches
from tenfold.plan.batches import Tried

ROW = 1000  # bytes


def decided(seconds: Callable[[int], float], *, fixed: bool = False, limit: int | None = None) -> tuple[int, list[int]]:
    """The size that is chosen where a batch takes `seconds`, and those that were tried for it."""
    tried: list[Tried] = []
    for size in sizing.sizes(fixed=fixed):
        if not sizing.goes_on(tried, size, limit):
            break
        tried.append(Tried(size, seconds(size), size * ROW, size * ROW))
    return batches.chosen(tried, limit), [one.size for one in tried]


def test_sizes_have_bounds() -> None:
    assert ANY[0] == 32
    assert ANY[-1] == 8192
    assert set(COMPILED) <= set(ANY)


def test_it_doubles_while_larger_batches_are_faster() -> None:
    """A cost for each batch, and one for each row: with more rows the former matters less and less."""
    size, tried = decided(lambda rows: 1e-3 + rows * 1e-5)
    assert size == 8192
    assert tried == list(ANY)


def test_all_sizes_are_tried_where_a_batch_costs_the_same() -> None:
    assert decided(lambda _: 1e-3) == (8192, list(ANY))
    assert decided(lambda _: 1e-3, fixed=True) == (4096, list(COMPILED))


def test_the_largest_where_the_rows_cost_all_unless_a_batch_takes_long() -> None:
    assert decided(lambda rows: rows * 1e-5, fixed=True) == (4096, list(COMPILED))
    assert decided(lambda rows: rows * 1e-3, fixed=True) == (256, [256])
    assert decided(lambda rows: rows * 1e-3) == (64, [32, 64])


def test_what_is_slower_is_not_taken() -> None:
    assert decided(lambda rows: 1e-3 if rows <= 128 else 1.0) == (128, [32, 64, 128, 256])


def test_rows_that_leave_the_cache_are_only_tried_where_that_can_pay() -> None:
    kilobytes = [Tried(1024, 1.1e-3, 0, 1024 * 3136), Tried(2048, 2.0e-3, 0, 2048 * 3136)]
    assert not sizing.goes_on(kilobytes, 4096, None)
    still_gaining = [kilobytes[0], Tried(2048, 1.2e-3, 0, 2048 * 3136)]
    assert sizing.goes_on(still_gaining, 4096, None)
    narrow = [Tried(one.size, one.seconds, 0, one.size * 100) for one in kilobytes]
    assert sizing.goes_on(narrow, 4096, None)


@pytest.mark.parametrize(("limit", "size"), [(300 * ROW, 256), (256 * ROW, 256), (40 * ROW, 32), (1, 32)])
def test_what_would_not_fit_is_not_tried(limit: int, size: int) -> None:
    found, tried = decided(lambda _: 1e-3, limit=limit)
    assert found == size
    assert tried[-1] == size


def test_what_turned_out_not_to_fit_is_not_taken() -> None:
    tried = [Tried(32, 1e-3, 100), Tried(64, 1e-3, 9_000)]
    assert batches.chosen(tried, 1_000) == 32
    assert not sizing.goes_on(tried, 128, 1_000)


@pytest.mark.parametrize(("limit", "size"), [(None, 4096), (2_000 * ROW, 1024), (300 * ROW, 300), (1, 300)])
def test_more_rows_than_could_be_tried(limit: int | None, size: int) -> None:
    assert sizing.beyond(Tried(300, 1e-3, 300 * ROW), limit, fixed=True) == size


@pytest.mark.parametrize(
    ("rows", "at_most", "size"),
    [(1000, 4096, 1000), (1000, 256, 250), (1000, 1000, 1000), (1001, 1000, 501), (0, 8, 1)],
)
def test_parts_are_cut_into_even_batches(rows: int, at_most: int, size: int) -> None:
    assert batches.even(rows, at_most) == size
