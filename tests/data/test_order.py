"""Which rows come when: every row once an epoch, as many batches for all workers, one order for any number of them."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.data import order
from tenfold.errors import BadCall


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 7))
def test_every_row_once_and_as_many_batches_for_all(count: int, batch_size: int, workers: int) -> None:
    if count < workers:
        with pytest.raises(BadCall, match="less than one for each worker"):
            order.batches(count, batch_size, (0, workers))
        return
    cuts = [order.batches(count, batch_size, (rank, workers)) for rank in range(workers)]
    assert len({len(mine) for mine in cuts}) == 1
    seen = [place for step in zip(*cuts, strict=True) for cut in step for place in range(count)[cut]]
    assert seen == list(range(count)), "side by side, the workers' batches are the order itself"
    sizes = [cut.stop - cut.start for mine in cuts for cut in mine]
    assert min(sizes) >= 1
    assert max(sizes) <= batch_size + 1
    assert all(cut.stop - cut.start == batch_size for mine in cuts for cut in mine[:-2])


def test_an_epoch_is_another_order_and_a_seed_always_the_same() -> None:
    first, second = (order.permutation(1000, 3, epoch, shuffle=True) for epoch in (0, 1))
    assert not numpy.array_equal(first, second)
    assert numpy.array_equal(first, order.permutation(1000, 3, 0, shuffle=True))
    assert not numpy.array_equal(first, order.permutation(1000, 4, 0, shuffle=True))
    assert sorted(first) == list(range(1000))
    assert list(order.permutation(5, 3, 1, shuffle=False)) == [0, 1, 2, 3, 4]
