"""Vectors are added up in the same way by whatever adds them up: memory, a ring of sockets, a group of PyTorch."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch

from tenfold.training import collective, ring
from tenfold.training.adding import Ask, Shared, Slots, part
from tenfold.training.muster import Arrival, Muster

KEY = b"k" * 32
MEMBERS = ("memory", "ring", "gloo")


class Gone(Exception):
    pass


def never(_missing: Callable[[], list[int]]) -> None:
    pass


class Workers:
    """Threads of this process, as if each was a worker."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self.folder = folder
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.meetings = [collective.Meeting(one, KEY) for one in self.listeners]
        self.number = 0
        self.next()

    def next(self) -> None:
        """The next muster."""
        self.number += 1
        arrivals = [Arrival(n, f"host {n}", 0, one.getsockname()[:2], 0) for n, one in enumerate(self.listeners)]
        self.muster = Muster(self.number, tuple(arrivals), 0, 0)

    def slots(self, member: str, rank: int, size: int, ask: Ask = never) -> Slots:
        if member == "memory":
            return Shared(self.folder / f"slots {self.number}", rank, self.count, size)
        if member == "ring":
            return ring.Ring(self.muster, rank, size, self.listeners[rank], KEY, ask)
        return self.meetings[rank].slots(self.muster, rank, size, None, ask)

    def sums(self, member: str, size: int, turns: int) -> list[numpy.ndarray]:
        def work(rank: int) -> numpy.ndarray:
            with contextlib.closing(self.slots(member, rank, size)) as slots:
                for turn in range(1, turns + 1):
                    torch.as_tensor(slots.slot).copy_(torch.arange(size) * (rank + 1) * turn)
                    found = torch.as_tensor(slots.add(turn, never)).numpy().copy()
                return found

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(work, range(self.count)))


@pytest.fixture(scope="module", autouse=True)
def _first_store() -> None:
    """The first one of a process opens a pipe for all others, for good."""
    torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Callable[[int], Workers]]:
    made: list[Workers] = []

    def make(count: int) -> Workers:
        made.append(Workers(count, tmp_path))
        return made[-1]

    yield make
    for several in made:
        for one in (*several.meetings, *several.listeners):
            one.close()


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_have_the_sum_of_all(count: int, member: str, workers: Callable[[int], Workers]) -> None:
    several = workers(count)
    for size in (1, 5, 300_000):  # one muster after the other, in the same workers
        found = several.sums(member, size, 3)
        expected = numpy.arange(size, dtype=numpy.float32) * (count * (count + 1) // 2) * 3
        numpy.testing.assert_allclose(found[0], expected, rtol=1e-6)
        for other in found:
            numpy.testing.assert_array_equal(other, found[0])
        several.next()
    assert not torch.distributed.is_initialized(), "the default group is the user's"


def test_a_stranger_is_not_let_in(workers: Callable[[int], Workers]) -> None:
    two = workers(2)
    with contextlib.closing(ring._call(two.muster.arrivals[0].address, b"x" * 48, never)):
        found = two.sums("ring", 4, 1)
    numpy.testing.assert_array_equal(found[0], numpy.arange(4) * 3)


@pytest.mark.parametrize("member", MEMBERS)
def test_one_that_leaves_is_noticed(member: str, workers: Callable[[int], Workers]) -> None:
    two = workers(2)
    left = threading.Event()

    def ask(_missing: Callable[[], list[int]]) -> None:
        if left.is_set():
            raise Gone

    def leave() -> None:
        two.slots(member, 1, 4).close()
        left.set()

    thread = threading.Thread(target=leave)
    thread.start()
    with contextlib.closing(two.slots(member, 0, 4)) as slots, pytest.raises(Gone):
        slots.add(1, ask)
    thread.join()


def test_who_waits_for_others_in_vain_is_free_for_the_next_muster(workers: Callable[[int], Workers]) -> None:
    def ask(_missing: Callable[[], list[int]]) -> None:
        raise Gone

    two = workers(2)
    before = two.muster
    with pytest.raises(Gone):
        two.slots("gloo", 0, 4, ask)
    two.next()
    numpy.testing.assert_array_equal(two.sums("gloo", 4, 1)[0], numpy.arange(4) * 3)
    two.meetings[1].slots(before, 1, 4, None, never).close()  # so that nobody waits for it any more


@pytest.mark.parametrize("member", ["memory", "gloo"])
def test_who_is_late_is_named(member: str, workers: Callable[[int], Workers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective, "MARK_AFTER", 0)
    three, named = workers(3), []
    two, all_three = threading.Barrier(2), threading.Barrier(3)

    def ask(missing: Callable[[], list[int]]) -> None:
        two.wait()  # both wait for the third
        named.append(missing())
        raise Gone

    def work(rank: int) -> None:
        with contextlib.closing(three.slots(member, rank, 4)) as slots:
            if rank < 2:
                with pytest.raises(Gone):
                    slots.add(1, ask)
            all_three.wait()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert named == [[2], [2]]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_are_all_rows_and_none_is_a_single_one(count: int) -> None:
    for length in range(2, 20):
        rows = numpy.arange(length)
        parts = [part(rows, number, count) for number in range(count)]
        assert numpy.array_equal(numpy.concatenate(parts), rows)
        assert 1 not in map(len, parts)
    assert [list(part(numpy.arange(1), number, 2)) for number in range(2)] == [[0], []]
