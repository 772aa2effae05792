"""GPUs across all calls of this process: never more than one whole."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.nursery import leases
from tenfold.plan.seats import GpuShare, Seat


def seat(*shares: tuple[str, float]) -> Seat:
    return Seat(0, 1, (), tuple(GpuShare(address, share) for address, share in shares))


@pytest.fixture(autouse=True)
def everything_is_given_back() -> Iterator[None]:
    assert max(leases._held.values(), default=0) < 1e-6
    yield
    assert max(leases._held.values(), default=0) < 1e-6
    leases._held.clear()


def test_a_whole_one_is_leased_once() -> None:
    assert leases.take(seat(("0", 1.0)))
    assert not leases.take(seat(("0", 1.0)))
    assert not leases.take(seat(("0", 0.1)))
    assert leases.take(seat(("1", 1.0)))
    leases.give(seat(("0", 1.0)))
    assert leases.take(seat(("0", 0.1)))
    for held in (seat(("0", 0.1)), seat(("1", 1.0))):
        leases.give(held)


@pytest.mark.parametrize("parts", [2, 3, 7, 10, 49])
def test_parts_of_one(parts: int) -> None:
    part = seat(("0", 1 / parts))
    assert [leases.take(part) for _ in range(parts + 1)] == [True] * parts + [False]
    for _ in range(parts):
        leases.give(part)
    assert leases.take(seat(("0", 1.0)))
    leases.give(seat(("0", 1.0)))


def test_all_or_nothing() -> None:
    assert leases.take(seat(("1", 1.0)))
    assert not leases.take(seat(("0", 1.0), ("1", 1.0)))
    assert leases.take(seat(("0", 1.0)))  # it was not held back for the one that was refused
    for address in ("0", "1"):
        leases.give(seat((address, 1.0)))


def test_a_seat_without_gpus_needs_no_lease() -> None:
    assert all(leases.take(seat()) for _ in range(10))


@given(st.lists(st.tuples(st.sampled_from("012"), st.sampled_from([1.0, 0.5, 1 / 3, 0.1, 0.7])), max_size=60))
def test_any_sequence(wanted: list[tuple[str, float]]) -> None:
    held: list[tuple[str, float]] = []
    load: Counter[str] = Counter()
    for address, share in wanted:
        fits = load[address] + share <= 1 + 1e-6
        took = leases.take(seat((address, share)))
        assert took is fits
        if took:
            held.append((address, share))
            load[address] += share  # type: ignore[assignment]
        elif held:
            address, share = held.pop(0)
            leases.give(seat((address, share)))
            load[address] -= share  # type: ignore[assignment]
    for address, share in held:
        leases.give(seat((address, share)))


def test_threads_never_hold_more_than_one_whole() -> None:
    """Each thread says what it holds under a lock of its own; the sum is watched."""
    watch, load, most, took = threading.Lock(), Counter[str](), Counter[str](), Counter[int]()
    start = threading.Barrier(8)

    def use(number: int) -> None:
        dice = random.Random(number)
        start.wait()
        for _ in range(400):
            wanted = [(address, dice.choice([1.0, 0.5, 0.25])) for address in dice.sample("012", dice.choice([1, 2]))]
            if not leases.take(seat(*wanted)):
                continue
            with watch:
                took[number] += 1
                for address, share in wanted:
                    load[address] += share  # type: ignore[assignment]
                    most[address] = max(most[address], load[address])
            with watch:
                for address, share in wanted:
                    load[address] -= share  # type: ignore[assignment]
            leases.give(seat(*wanted))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert max(most.values()) <= 1.0
    assert sum(took.values()) > 100
