"""What is held in a cluster for a call, once for all its crews: crews with one plan sit on the same seats."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Claim = tuple[str, int]
"""A node, and whose call it is."""


@dataclass(eq=False, slots=True)
class Share(Generic[T]):
    """Something that is held, until all who use it have given it back."""

    claim: Claim
    """For whom."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Whoever comes first makes it, which may take long; the others wait."""
    held: list[T] = field(default_factory=list)
    """It, once it is made."""
    users: int = 0
    """How many have it."""


class Shares(Generic[T]):
    """Everything that is held through one connection. Called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shares: dict[Claim, Share[T]] = {}

    def take(self, claim: Claim, make: Callable[[], T]) -> Share[T]:
        """What is held for this claim, made where nothing is yet."""
        with self._lock:
            share = self._shares.setdefault(claim, Share(claim))
            share.users += 1
        try:
            with share.lock:
                if not share.held:
                    share.held.append(make())
        except BaseException:
            self.give_back(share)
            raise
        return share

    def give_back(self, share: Share[T]) -> bool:
        """One user less; whether it was the last, who is to let it go."""
        with self._lock:
            share.users -= 1
            if share.users == 0 and self._shares.get(share.claim) is share:
                del self._shares[share.claim]
            return share.users == 0

    def forget(self, share: Share[T]) -> None:
        """It is lost: who comes next has it made anew."""
        with self._lock:
            if self._shares.get(share.claim) is share:
                del self._shares[share.claim]
