"""Where the wall time of a call went, from what its workers have noted of their tasks.

A worker's time is cut without gaps: until its first task it started up, between two tasks it was spoken to, after its
last one it waited for the others. Of a task that has noted more (`spent`), more is known. The parts are averages over
the workers, and add up to the wall time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tenfold.journal import block
from tenfold.work.clock import PARTS


@dataclass(frozen=True, slots=True)
class Spell:
    """Work of one task in one seat."""

    seat: int
    """Which."""
    started: float
    """In seconds since the epoch."""
    seconds: float
    """How long."""
    spent: Mapping[str, float]
    """Parts of these seconds, where the task has noted them; what they lack was compute."""

    @property
    def ended(self) -> float:
        return self.started + self.seconds


@dataclass(frozen=True, slots=True)
class Shift:
    """One call of a verb: its seats, and what was done in them."""

    began: float
    """In seconds since the epoch."""
    seats: int
    """How many there were."""
    spells: tuple[Spell, ...]
    """All tasks that were run."""
    memory: int = 0
    """Most resident memory of each seat's worker, added up."""
    machines: int = 1
    """How many the seats were on."""


def split(seconds: float, shifts: Sequence[Shift]) -> dict[str, float]:
    """Seconds of wall time in parts. What is outside of the shifts is `rest`, or compute where there are none."""
    found = dict.fromkeys(map(str, PARTS), 0.0)
    for shift in shifts:
        for part, share in _of_shift(shift).items():
            found[part] += share
    left = seconds - sum(found.values())
    if left < 0:  # clocks of several machines, or calls side by side
        return {part: share * seconds / (seconds - left) for part, share in found.items()}
    found["rest" if shifts else "compute"] += left
    return found


def _of_shift(shift: Shift) -> dict[str, float]:
    """From its beginning to the end of its last task."""
    found = dict.fromkeys(map(str, PARTS), 0.0)
    if not shift.spells:
        return found
    over = max(spell.ended for spell in shift.spells)
    in_order = sorted(_apart(shift.spells), key=lambda spell: (spell.seat, spell.started))
    seats = [list(spells) for _, spells in groupby(in_order, lambda spell: spell.seat)]
    for spells in seats:
        for part, share in _of_seat(spells, shift.began, over).items():
            found[part] += share
    found["waiting"] += max(0, shift.seats - len(seats)) * (over - shift.began)  # had nothing to do
    _part_waiting(seats, found)
    count = max(shift.seats, len(seats))
    return {part: share / count for part, share in found.items()}


def _apart(spells: Sequence[Spell]) -> list[Spell]:
    """As they were done: one after the other in a seat."""
    times = block.apart([(spell.seat, spell.started, spell.ended) for spell in spells])
    return [replace(spell, started=start) for spell, (start, _) in zip(spells, times, strict=True)]


def _of_seat(spells: Sequence[Spell], began: float, over: float) -> dict[str, float]:
    found = dict.fromkeys(map(str, PARTS), 0.0)
    for spell in spells:
        for part, share in spell.spent.items():
            found[part] += share
        found["compute"] += max(0.0, spell.seconds - sum(spell.spent.values()))
    first, last = spells[0].started, max(spell.ended for spell in spells)
    found["startup"] += max(0.0, first - began)
    found["communication"] += max(0.0, (last - first) - sum(spell.seconds for spell in spells))
    found["waiting"] += over - last
    return found


def _part_waiting(seats: Sequence[Sequence[Spell]], found: dict[str, float]) -> None:
    """Workers that add up what they have all end at the same time: who was there early has waited for the others."""
    communication = [sum(spell.spent.get("communication", 0.0) for spell in spells) for spells in seats]
    waited = sum(communication) - len(communication) * min(communication)
    found["communication"] -= waited
    found["waiting"] += waited
