"""The workers of a launch, as they know each other: values that travel between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attendee:
    """A worker, as the others know it."""

    rank: int
    """Its number among them, from 0."""
    host: str
    """Its machine."""
    address: str
    """Where others reach it."""
    ports: Mapping[str, int]
    """Name of a group -> the port that this worker has chosen for it; 0 for none."""


@dataclass(frozen=True, slots=True)
class Gang:
    """All workers of a launch, seen from one of them."""

    rank: int
    """Which one that is."""
    attendees: tuple[Attendee, ...]
    """In the order of their ranks."""

    @property
    def count(self) -> int:
        return len(self.attendees)

    @property
    def own(self) -> Attendee:
        return self.attendees[self.rank]

    @property
    def neighbours(self) -> list[int]:
        """Ranks of the workers on this worker's machine, itself among them."""
        return [one.rank for one in self.attendees if one.host == self.own.host]

    def reach(self, group: str, rank: int = 0) -> tuple[str, int]:
        """Where a worker listens for a group."""
        one = self.attendees[rank]
        return one.address, one.ports[group]
