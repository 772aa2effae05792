"""The port through which an engine starts worker processes, and what it hears of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Started:
    """A worker exists."""

    name: int
    """As the engine called it."""
    pid: int
    """Its process id."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker cannot be started this way."""

    name: int
    """As the engine called it."""
    reason: str
    """In words."""


@dataclass(frozen=True, slots=True)
class Exited:
    """A worker is gone, and everything that it started with it."""

    name: int
    """As the engine called it."""
    status: int
    """Its exit status, or minus the number of the signal that killed it."""


Event = Started | Refused | Exited


class Starter(Protocol):
    """Starts workers and tells when they end. Used by one thread.

    `start` returns at once and takes no ownership of the descriptors: it keeps duplicates where it needs them later.
    `kill` kills a worker and all its descendants; an `Exited` follows. `events` never waits. `close` kills whatever
    is left. `handle` can be waited on with `select` for events; None means that `events` must be called from time to
    time.
    """

    handle: int | None

    def start(self, name: int, descriptors: tuple[int, ...]) -> None: ...

    def kill(self, name: int) -> None: ...

    def events(self) -> list[Event]: ...

    def close(self) -> None: ...
