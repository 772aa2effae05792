"""How many tasks go together, and how many wait with a worker: decided from invented times."""

from __future__ import annotations

import pytest

from tenfold.dispatch.pace import GROWTH, MOST, SHORT, Pace

COST = 0.0002


def paced(seconds: float, *, even: bool = False, one_by_one: bool = False) -> Pace:
    pace = Pace(COST, one_by_one=one_by_one, even=even)
    pace.learn(seconds, 1)
    return pace


def test_the_first_task_goes_alone_and_batches_grow_step_by_step() -> None:
    pace = Pace(COST, one_by_one=False)
    assert (pace.size(None, 2), pace.depth()) == (1, 1)
    pace.learn(1e-6, 1)
    assert [pace.size(None, 2) for _ in range(6)] == [GROWTH, GROWTH**2, GROWTH**3, GROWTH**4, MOST, MOST]


def test_towards_the_end_batches_are_shared() -> None:
    pace = paced(1e-6)
    assert [pace.size(left, 2) for left in (1000, 1000, 20, 3)] == [8, 64, 5, 1]


@pytest.mark.parametrize(
    ("seconds", "even", "depth"),
    [(0.001, False, 2), (0.02, False, 1), (0.02, True, 2), (SHORT * 2, True, 1)],
)
def test_a_second_batch_waits_where_it_is_not_long_until_its_turn(seconds: float, even: bool, depth: int) -> None:
    assert paced(seconds, even=even).depth() == depth
    assert paced(seconds, even=even, one_by_one=True).depth() == 1
