"""Vectors are added up over sockets as they are in shared memory."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest

from tenfold.training import ring
from tenfold.training.adding import Shared, Slots
from tenfold.training.muster import Arrival, Muster

KEY = b"k" * 32


class Gone(Exception):
    pass


def never(_missing: Callable[[], list[int]]) -> None:
    pass


def muster(listeners: list[object], number: int = 1) -> Muster:
    arrivals = [Arrival(n, f"host {n}", 0, one.getsockname()[:2], 0) for n, one in enumerate(listeners)]  # type: ignore[attr-defined]
    return Muster(number, tuple(arrivals), 0, 0)


def sums(open_slots: Callable[[int], Slots], count: int, size: int, turns: int) -> list[numpy.ndarray]:
    def work(rank: int) -> numpy.ndarray:
        with contextlib.closing(open_slots(rank)) as slots:
            for turn in range(1, turns + 1):
                slots.slot[:] = numpy.arange(size) * (rank + 1) * turn
                found = slots.add(turn, never).copy()
            return found

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


@pytest.mark.parametrize("size", [1, 5, 300_000])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_ring_adds_what_memory_adds(count: int, size: int, tmp_path: Path) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    whole = muster(listeners)
    in_ring = sums(lambda rank: ring.Ring(whole, rank, size, listeners[rank], KEY, never), count, size, 3)
    in_memory = sums(lambda rank: Shared(tmp_path / "slots", rank, count, size), count, size, 3)
    expected = numpy.arange(size, dtype=numpy.float32) * (count * (count + 1) // 2) * 3
    for found in (*in_ring, *in_memory):
        numpy.testing.assert_allclose(found, expected, rtol=1e-6)
        numpy.testing.assert_array_equal(found, in_ring[0] if found is not in_memory[0] else found)
    for one in listeners:
        one.close()


def test_a_stranger_is_not_let_in() -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    whole = muster(listeners)
    with contextlib.closing(ring._call(whole.arrivals[0].address, b"x" * 48, never)):
        found = sums(lambda rank: ring.Ring(whole, rank, 4, listeners[rank], KEY, never), 2, 4, 1)
    numpy.testing.assert_array_equal(found[0], numpy.arange(4) * 3)
    for one in listeners:
        one.close()


def test_a_neighbour_that_leaves_is_noticed() -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    whole = muster(listeners)
    left = threading.Event()

    def ask(_missing: Callable[[], list[int]]) -> None:
        if left.is_set():
            raise Gone

    def leave() -> None:
        ring.Ring(whole, 1, 4, listeners[1], KEY, never).close()
        left.set()

    thread = threading.Thread(target=leave)
    thread.start()
    with contextlib.closing(ring.Ring(whole, 0, 4, listeners[0], KEY, ask)) as slots, pytest.raises(Gone):
        slots.add(1, ask)
    thread.join()
    for one in listeners:
        one.close()
