"""The slate: results in shared memory, in order, around the end of the ring, and what the worker is doing."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.nursery import slate
from tenfold.nursery.slate import LARGEST, SIZE, Slate


@contextlib.contextmanager
def both_sides() -> Iterator[tuple[Slate, Slate]]:
    """A worker's view and its caller's, of the same memory."""
    handle = slate.create()
    worker, caller = Slate(handle), Slate(handle)
    os.close(handle)
    try:
        yield worker, caller
    finally:
        worker.close()
        caller.close()


@pytest.fixture
def sides() -> Iterator[tuple[Slate, Slate]]:
    with both_sides() as found:
        yield found


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_result(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    assert caller.take(1, 0) == ([], [])
    assert worker.put(1, 0, 0.25, b"body")
    assert caller.take(1, 0) == ([0.25], [b"body"])
    assert caller.take(1, 1) == ([], [])


def test_a_run_of_results_is_taken_at_once(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    for place in range(50):
        assert worker.put(3, place, place / 2, b"%d" % place)
    assert caller.take(3, 0) == ([place / 2 for place in range(50)], [b"%d" % place for place in range(50)])


sizes = st.integers(0, LARGEST) | st.integers(0, 300) | st.sampled_from([0, 1, LARGEST - 1, LARGEST])
steps = st.lists(st.tuples(st.just("put"), sizes) | st.tuples(st.just("take"), st.just(0)), max_size=120)


@settings(max_examples=50)
@given(steps, st.integers(0, SIZE))
def test_any_sequence_of_puts_and_takes(sequence: list[tuple[str, int]], start: int) -> None:
    """The same bodies in the same order, whatever the sizes and wherever in the ring it begins."""
    with both_sides() as (worker, caller):
        turn(worker, caller, start)
        waiting: deque[bytes] = deque()
        put = taken = 0
        for action, size in sequence:
            if action == "put":
                body = bytes([put % 251]) * size
                if worker.put(2, put, float(put), body):
                    waiting.append(body)
                    put += 1
                else:
                    assert sum(map(len, waiting)) > SIZE - 3 * LARGEST  # it is refused only when it is nearly full
            else:
                seconds, bodies = caller.take(2, taken)
                assert bodies == list(waiting)
                assert seconds == [float(taken + n) for n in range(len(bodies))]
                taken += len(bodies)
                waiting.clear()
        assert caller.take(2, taken)[1] == list(waiting)


def turn(worker: Slate, caller: Slate, start: int) -> None:
    """Bring the ring to a place of its own, so that its end comes at any moment."""
    place = 0
    while start > 0:
        size = min(start, LARGEST)
        assert worker.put(1, place, 0.0, bytes(size))
        assert len(caller.take(1, place)[1]) == 1
        place, start = place + 1, start - size - 1


@pytest.mark.parametrize("size", [0, 1, 5, 1000, LARGEST])
def test_many_times_around(sides: tuple[Slate, Slate], size: int) -> None:
    worker, caller = sides
    count = 4 * SIZE // (size + 20) if size > 100 else 3000
    taken = 0
    for place in range(count):
        body = (b"%d-" % place * size)[:size]
        assert worker.put(1, place, 0.0, body)
        if place % 3 == 2:
            _, bodies = caller.take(1, taken)
            assert len(bodies) == 3
            assert bodies[-1] == body
            taken += 3


def test_a_full_slate_takes_no_more(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    count = 0
    while worker.put(1, count, 0.0, bytes(LARGEST)):
        count += 1
    assert count == (SIZE - 64) // (LARGEST + 20)
    assert not worker.put(1, count, 0.0, bytes(LARGEST))
    assert len(caller.take(1, 0)[1]) == count  # nothing was lost or overwritten
    assert worker.put(1, count, 0.0, bytes(LARGEST))


def test_reading_stops_at_the_result_of_another_task(sides: tuple[Slate, Slate]) -> None:
    """Failures and large results come by the wire; the caller reads on only as far as the task that it expects."""
    worker, caller = sides
    worker.put(1, 0, 0.0, b"a")
    worker.put(1, 1, 0.0, b"b")
    worker.put(1, 3, 0.0, b"d")  # number 2 failed
    worker.put(2, 0, 0.0, b"e")
    assert caller.take(1, 0)[1] == [b"a", b"b"]
    assert caller.take(1, 2)[1] == []
    assert caller.take(2, 0)[1] == []
    assert caller.take(1, 3)[1] == [b"d"]
    assert caller.take(1, 4)[1] == []
    assert caller.take(2, 0)[1] == [b"e"]


def test_a_foreign_result_is_still_there_at_the_end_of_the_ring(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    turn(worker, caller, SIZE - 64 - 5)
    worker.put(5, 7, 0.5, b"after the wrap")
    assert caller.take(5, 0) == ([], [])
    assert caller.take(5, 7) == ([0.5], [b"after the wrap"])


def test_bodies_are_copies(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    worker.put(1, 0, 0.0, b"first")
    (body,) = caller.take(1, 0)[1]
    for place in range(1, 40):
        worker.put(1, place, 0.0, b"\xff" * LARGEST)
        caller.take(1, place)
    assert body == b"first"


# -- what the worker is doing -----------------------------------------------------------------------------------------


def test_a_fresh_slate_is_idle(sides: tuple[Slate, Slate]) -> None:
    assert sides[1].seen() is None


def test_what_is_running(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    worker.doing(7, 3)
    batch, place, seconds = caller.seen() or (0, 0, -1.0)
    assert (batch, place) == (7, 3)
    assert 0 <= seconds < 10
    worker.doing(7, 4)
    assert (caller.seen() or ())[:2] == (7, 4)
    worker.idle()
    assert caller.seen() is None


def test_the_clock_of_a_task_goes_on(sides: tuple[Slate, Slate]) -> None:
    worker, caller = sides
    worker.doing(1, 0)
    first = (caller.seen() or (0, 0, 0.0))[2]
    second = (caller.seen() or (0, 0, 0.0))[2]
    assert 0 <= first <= second


# -- another process --------------------------------------------------------------------------------------------------


def test_a_killed_worker_has_told_everything(tmp_path: Path) -> None:
    """What it had finished, and which task it was running: without a message."""
    import subprocess
    import sys

    handle = slate.create()
    caller = Slate(handle)
    code = f"""
import os, signal
from tenfold.nursery.slate import Slate
worker = Slate({handle})
for place in range(5):
    worker.doing(1, place)
    worker.put(1, place, 0.5, b"%d" % place)
worker.doing(1, 5)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[handle])
    os.close(handle)
    assert done.returncode == -9
    assert caller.take(1, 0)[1] == [b"%d" % place for place in range(5)]
    assert (caller.seen() or ())[:2] == (1, 5)
    caller.close()


def test_while_another_process_writes(tmp_path: Path) -> None:
    """One writer and one reader at full speed, no lock: every body whole and in order."""
    import subprocess
    import sys

    handle = slate.create()
    caller = Slate(handle)
    count = 20_000
    code = f"""
from tenfold.nursery.slate import Slate
worker = Slate({handle})
for place in range({count}):
    body = b"%d " % place * (place % 300)
    while not worker.put(1, place, float(place), body):
        pass
"""
    writer = subprocess.Popen([sys.executable, "-c", code], pass_fds=[handle])
    os.close(handle)
    taken = 0
    while taken < count:
        seconds, bodies = caller.take(1, taken)
        for took, body in zip(seconds, bodies, strict=True):
            assert took == taken
            assert body == b"%d " % taken * (taken % 300)
            taken += 1
        assert bodies or writer.poll() in (None, 0)
    assert writer.wait() == 0
    caller.close()
