"""Weights that workers add to: every update is in them once, in shared memory and with servers, whoever is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.training import requests, served
from tenfold.training.adding import Ask
from tenfold.training.muster import Muster
from tenfold.training.requests import Kind, Request
from tenfold.training.served import Served
from tenfold.training.server import Counter
from tenfold.training.weights import InMemory, Weights

KEY = b"k" * 32
BATCHES = 40
SIZE = 2 * BATCHES
"""Of a vector in which each batch has a place in either half: it is seen which parts of its update are there."""
WORKERS = 3
MEMBERS = {"memory": 0, "one server": 1, "two servers": 2}


class Gone(Exception):
    pass


def gone(_missing: object) -> None:
    raise Gone


@dataclass(frozen=True)
class Place:
    """Where weights are: what a worker needs to find them."""

    path: Path
    servers: tuple[tuple[str, int], ...]
    muster: int = 1
    averages: tuple[int, int] = (0, 0)

    def weights(self, worker: int, ask: Ask = gone) -> Weights:
        if not self.servers:
            return InMemory(self.path, worker, SIZE, BATCHES, WORKERS, slice(*self.averages))
        muster = Muster(self.muster, (), 0, 0, self.servers)
        return Served(muster, worker, KEY, SIZE, BATCHES, WORKERS, slice(*self.averages), ask)


@pytest.fixture(params=MEMBERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with served_by(MEMBERS[request.param], tmp_path) as found:
        yield found


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Place]:
    with served_by(2, tmp_path) as found:
        yield found


@contextlib.contextmanager
def served_by(count: int, folder: Path) -> Iterator[Place]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        for listener in listeners:
            stack.enter_context(Counter(listener, KEY))
        yield Place(folder / "weights", tuple(listener.getsockname() for listener in listeners))


def change(batch: int) -> numpy.ndarray:
    return (numpy.arange(SIZE) % BATCHES == batch).astype(numpy.float32)


def begin(place: Place, epoch: int = 0) -> None:
    with contextlib.closing(place.weights(0)) as weights:
        weights.begin(epoch, numpy.zeros(SIZE - 3, numpy.float32))


def end(place: Place) -> tuple[int, list[float]]:
    found = numpy.full(SIZE, numpy.nan, numpy.float32)
    with contextlib.closing(place.weights(0)) as weights:
        return weights.now(found), found.tolist()


def work(place: Place, worker: int) -> int:
    """One worker's part of an epoch; how many steps it took."""
    steps, run = 0, numpy.empty(SIZE, numpy.float32)
    with contextlib.closing(place.weights(worker)) as weights:
        while (batch := weights.take(run)) is not None:
            weights.add(change(batch), batch)
            steps += 1
    return steps


def test_every_update_is_there_once(place: Place) -> None:
    begin(place)
    steps = tenfold.map(lambda worker: work(place, worker), range(WORKERS), workers=WORKERS, progress=False)
    assert sum(steps) == BATCHES
    assert end(place) == (BATCHES, [1.0] * SIZE)
    begin(place)
    assert end(place) == (BATCHES, [1.0] * SIZE), "begun already"
    begin(place, epoch=1)
    assert end(place) == (0, [0.0] * SIZE)


def test_an_epoch_goes_on_from_the_middle(place: Place) -> None:
    begin(place)
    run, found = numpy.empty(SIZE, numpy.float32), numpy.empty(SIZE, numpy.float32)
    with contextlib.closing(place.weights(1)) as weights:
        taken = [weights.take(run) for _ in range(2 if len(place.servers) < 2 else 1)]
        for batch in taken[:1]:
            weights.add(change(batch or 0), batch or 0)
        if len(place.servers) < 2:
            done = weights.look(found)
        else:  # each of them is at another update
            weights.now(found)
            done = numpy.arange(BATCHES) == taken[0]
    assert numpy.flatnonzero(done).tolist() == taken[:1]
    assert numpy.array_equal(found, change(taken[0] or 0))
    later = replace(place, muster=2)
    with contextlib.closing(later.weights(0)) as weights:  # as if the memory was new
        weights.begin(7, found, done)
    later = replace(place, muster=3)
    with contextlib.closing(later.weights(0)) as weights:  # and by another who does not know what the first has said
        weights.begin(7, found, done)
    assert end(later)[0] == 1
    assert work(later, 2) == BATCHES - 1
    assert end(later) == (BATCHES, [1.0] * SIZE)


def test_of_averages_the_last_ones_count(place: Place) -> None:
    middle = SIZE // 2 - 5, SIZE // 2 + 3  # with two servers, each has some
    place = replace(place, averages=middle)
    begin(place)
    run = numpy.empty(SIZE, numpy.float32)
    with contextlib.closing(place.weights(0)) as one, contextlib.closing(place.weights(1)) as other:
        taken = [one.take(run), other.take(run)]
        for weights, batch, value in zip((one, other), taken, (3.0, 5.0), strict=True):
            assert batch is not None
            weights.add(numpy.full(SIZE, value, numpy.float32), batch)
        for weights in (one, other):
            weights.now(run)  # tells the other servers that its update counts
    expected = numpy.full(SIZE, 8.0)
    expected[slice(*middle)] = 5.0
    assert end(place)[1] == expected.tolist()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def taken(weights: Weights) -> None:
    """Killed with a batch."""
    weights.take(numpy.empty(SIZE, numpy.float32))
    die()


class Half:
    """A socket that sends half of what it is given."""

    def __init__(self, made: socket.socket) -> None:
        self.made = made

    def sendall(self, content: Any) -> None:
        self.made.sendall(content[: len(content) // 2] if len(content) > 100 else content)  # heads are whole


def at(kind: Kind, *, half: bool = False) -> Callable[[Weights], None]:
    """Killed when a request has been answered, or while it is sent."""

    def meet_it(weights: Weights) -> None:
        ask = requests.ask

        def asked(made: Any, request: Request) -> None:
            ask(Half(made) if half and request.kind == kind else made, request)  # type: ignore[arg-type]
            if request.kind == kind:
                if not half:
                    requests.answered(made)
                die()

        requests.ask = asked
        batch = weights.take(numpy.empty(SIZE, numpy.float32))
        assert batch is not None
        weights.add(change(batch), batch)

    return meet_it


DEATHS = {
    "update held": at(Kind.HOLD),
    "update half held": at(Kind.HOLD, half=True),
    "update counted": at(Kind.ADD),
    "update half sent": at(Kind.ADD, half=True),
}


def killed(place: Place, death: Callable[[Weights], None]) -> None:
    def meet(worker: int) -> None:
        if tenfold.here().attempt == 1:
            with contextlib.closing(place.weights(worker)) as weights:
                death(weights)

    tenfold.map(meet, [1], workers=1, retries=1, progress=False)


def all_once_after(place: Place, death: Callable[[Weights], None]) -> None:
    begin(place)
    with contextlib.closing(place.weights(0)) as weights:
        for _ in range(3):
            batch = weights.take(numpy.empty(SIZE, numpy.float32))
            assert batch is not None
            weights.add(change(batch), batch)
    killed(place, death)
    place = replace(place, muster=2)
    begin(place)
    tenfold.map(lambda worker: work(place, worker), range(WORKERS), workers=WORKERS, progress=False)
    assert end(place) == (BATCHES, [1.0] * SIZE)


def test_a_killed_worker_has_added_nothing_by_half(place: Place) -> None:
    all_once_after(place, taken)


@pytest.mark.parametrize("death", DEATHS)
def test_a_worker_that_is_killed_at_any_moment_has_added_all_or_nothing(death: str, two: Place) -> None:
    all_once_after(two, DEATHS[death])


@pytest.mark.parametrize("kind", [Kind.TAKE, Kind.PULL, Kind.HOLD, Kind.ADD])
def test_what_is_asked_for_again_is_done_once(kind: Kind, two: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = requests.ask
    broken = []

    def ask(made: socket.socket, request: Request) -> None:
        asks(made, request)
        if request.kind == kind and len(broken) < 3 and request.number not in broken:
            requests.answered(made)
            broken.append(request.number)
            raise ConnectionResetError

    monkeypatch.setattr(served.requests, "ask", ask)
    begin(two)
    with contextlib.closing(two.weights(1, lambda _missing: None)) as weights:
        run = numpy.empty(SIZE, numpy.float32)
        while (batch := weights.take(run)) is not None:
            weights.add(change(batch), batch)
        assert broken
        assert weights.now(run) == BATCHES
        assert run.tolist() == [1.0] * SIZE


def test_one_that_was_given_up_is_not_answered(two: Place) -> None:
    begin(two)
    run = numpy.empty(SIZE, numpy.float32)
    with contextlib.closing(two.weights(1)) as weights:
        batch = weights.take(run)
        assert batch is not None
        begin(replace(two, muster=2))
        with pytest.raises(Gone):
            weights.add(change(batch), batch)
    assert end(replace(two, muster=2)) == (0, [0.0] * SIZE)


def test_how_far_a_worker_is_ahead(place: Place) -> None:
    begin(place)
    run = numpy.empty(SIZE, numpy.float32)
    with contextlib.closing(place.weights(0)) as one, contextlib.closing(place.weights(1)) as other:
        for steps in range(1, 4):
            batch = one.take(run)
            assert batch is not None
            one.add(change(batch), batch)
            assert (one.ahead([0, 1]), other.ahead([0, 1]), one.ahead([0])) == (steps, 0, 0)
        work(place, 1)
        assert one.ahead([0, 1, 2]) == 0, "nobody waits when there is nothing left to take"


def test_a_stranger_is_not_let_in(two: Place) -> None:
    begin(two)
    with socket.create_connection(two.servers[0]) as stranger:
        with pytest.raises((OSError, EOFError, AuthenticationError)):
            requests.trust(stranger, b"x" * 32, called=True)
    with socket.create_connection(two.servers[0]) as stranger:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # hung up on, wherever it has got to
            requests.ask(stranger, Request(Kind.ADD, 1, 0, number=1, body=change(0)))
            while stranger.recv(4096):  # what it is asked to prove, then the end
                continue
    assert end(two) == (0, [0.0] * SIZE)
