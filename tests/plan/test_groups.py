"""Which tasks travel together."""

from __future__ import annotations

import pytest

from tenfold.plan.groups import MOST, cut


def test_one_kind_is_shared_out_evenly() -> None:
    assert cut(dict.fromkeys(range(128), "a"), 2) == [list(range(64)), list(range(64, 128))]


def test_many_kinds_go_whole_the_largest_first() -> None:
    likeness = {index: f"{index % 4}" for index in range(10)}
    assert cut(likeness, 2) == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


def test_few_kinds_are_shared_out_each() -> None:
    assert sorted(cut({0: "a", 1: "a", 2: "b", 3: "b"}, 2)) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_task_is_in_one_group_of_at_most_so_many(workers: int) -> None:
    groups = cut(dict.fromkeys(range(1000), "a"), workers)
    assert sorted(index for group in groups for index in group) == list(range(1000))
    assert max(map(len, groups)) <= MOST
    assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_nothing_gives_nothing() -> None:
    assert cut({}, 2) == []
