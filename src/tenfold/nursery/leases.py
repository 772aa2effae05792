"""Who holds which part of which GPU, across all calls of this process (several threads may call `map` at once)."""

from __future__ import annotations

import threading
from collections import Counter

from tenfold.plan.seats import Seat

_ROUNDING = 1e-9

_lock = threading.Lock()
_held: Counter[str] = Counter()


def take(seat: Seat) -> bool:
    """Lease the seat's GPUs; False, and nothing leased, where somebody else holds too much of one."""
    with _lock:
        if any(_held[gpu.address] + gpu.share > 1 + _ROUNDING for gpu in seat.gpus):
            return False
        for gpu in seat.gpus:
            _held[gpu.address] += gpu.share  # type: ignore[assignment]
        return True


def give(seat: Seat) -> None:
    with _lock:
        for gpu in seat.gpus:
            _held[gpu.address] -= gpu.share  # type: ignore[assignment]
