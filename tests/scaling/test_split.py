"""Where the wall time went: the parts add up, whatever the tasks did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.scaling.split import Shift, Spell, split
from tenfold.work.clock import PARTS


def test_a_call_without_tasks_is_compute() -> None:
    assert split(2.0, [])["compute"] == 2.0


def test_two_seats_by_hand() -> None:
    spells = (Spell(0, 10.5, 1.0, {}), Spell(0, 11.75, 1.25, {}), Spell(1, 11.0, 1.0, {}))
    found = split(3.5, [Shift(10.0, 2, spells)])
    # seat 0: 0.5 ready, 2.25 at work, 0.25 between; seat 1: 1.0 ready, 1.0 at work, 1.0 without anything to do
    assert found == {
        "startup": 0.75,
        "input": 0.0,
        "compute": 1.625,
        "communication": 0.125,
        "waiting": 0.5,
        "rest": 0.5,
    }


def test_what_tasks_have_noted_is_kept() -> None:
    spell = Spell(0, 10.0, 2.0, {"startup": 0.5, "input": 0.25, "communication": 0.25})
    found = split(2.0, [Shift(10.0, 1, (spell,))])
    assert found["startup"] == 0.5
    assert found["input"] == 0.25
    assert found["compute"] == 1.0
    assert found["communication"] == 0.25


def test_who_came_early_has_waited_for_the_others() -> None:
    early, late = ({"compute": 1.0, "communication": 1.5}, {"compute": 2.0, "communication": 0.5})
    found = split(2.5, [Shift(10.0, 2, (Spell(0, 10.0, 2.5, early), Spell(1, 10.0, 2.5, late)))])
    assert found["communication"] == 0.5
    assert found["waiting"] == 0.5
    assert found["compute"] == 1.5


def test_a_seat_that_had_nothing_to_do_has_waited() -> None:
    found = split(1.0, [Shift(10.0, 4, (Spell(0, 10.0, 1.0, {}),))])
    assert found["waiting"] == 0.75
    assert found["compute"] == 0.25


def test_models_that_were_trained_together_are_told_of_at_one_moment() -> None:
    spells = tuple(Spell(0, 12.75, 0.25, {}) for _ in range(8))  # one program of 2 s that ended at 13
    found = split(3.0, [Shift(10.0, 1, spells)])
    assert found["startup"] == 1.0
    assert found["compute"] == 2.0


shares = st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1))


def _spell(seat: int, started: float, seconds: float, spent: dict[str, float]) -> Spell:
    """`spent` are shares of the seconds; together they may be a little more than all, as clocks are."""
    scale = seconds / max(1.0, sum(spent.values()) * 0.99)
    return Spell(seat, started, seconds, {part: share * scale for part, share in spent.items()})


spells = st.builds(_spell, st.integers(0, 3), st.floats(10, 20), st.floats(0, 5), shares)


@settings(deadline=None)
@given(st.lists(spells, max_size=20), st.floats(0.1, 30))
def test_the_parts_add_up_to_the_wall_time_and_none_is_negative(found: list[Spell], seconds: float) -> None:
    parts = split(seconds, [Shift(10.0, 2, tuple(found))])
    assert set(parts) == set(PARTS)
    assert sum(parts.values()) == pytest.approx(seconds)
    assert min(parts.values()) >= -1e-9
