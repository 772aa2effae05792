"""In a worker: weights in the memory of parameter servers, which all workers add to over sockets.

Each server holds a part of them; the first one also knows who does which batch. What a worker asks for is numbered, so
it may ask again where a connection breaks: nothing is added twice. A server that is gone is told by the roll.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import AuthenticationError

import numpy

from tenfold.training import requests
from tenfold.training.adding import Ask
from tenfold.training.muster import Muster
from tenfold.training.requests import Answer, Kind, Request
from tenfold.training.weights import FREE, Weights

AGAIN_AFTER = 0.05  # seconds until a server is called again that did not answer


class Served(Weights):
    """What several servers hold, seen from one worker."""

    def __init__(
        self,
        muster: Muster,
        worker: int,
        key: bytes,
        size: int,
        batches: int,
        workers: int,
        averages: slice,
        asking: Ask,
    ) -> None:
        count = len(muster.servers)
        self._parts = [slice(size * n // count, size * (n + 1) // count) for n in range(count)]
        self._size = size
        self._averages = averages
        self._batches = batches
        self._workers = workers
        self._request = Request(Kind.PULL, muster.number, worker, workers=workers)
        self._number = 0  # of this worker's last update
        self._links = [_Link(address, key, lambda: asking(list)) for address in muster.servers]

    def begin(self, epoch: int, weights: numpy.ndarray, done: numpy.ndarray | None = None) -> None:
        first = self._of_first(Kind.LOOK)
        settling = replace(self._request, kind=Kind.SETTLE, body=first.body)
        found = [first, *self._ask(self._links[1:], [settling] * (len(self._links) - 1))]
        finished = None if done is None else numpy.flatnonzero(done)
        if {(one.value, one.begun) for one in found} == {(epoch, first.begun)}:
            self._of_first(Kind.RESUME, finished)  # again: whoever has begun it may have come no further
            return
        run = numpy.zeros(self._size, numpy.float32)
        run[: len(weights)] = weights
        beginning = replace(self._request, kind=Kind.BEGIN, value=epoch, count=self._batches)
        self._ask(
            self._links,
            [replace(beginning, body=run[part], averages=_within(self._averages, part)) for part in self._parts],
        )
        if finished is not None:
            self._of_first(Kind.RESUME, finished)

    def take(self, into: numpy.ndarray) -> int | None:
        batch = self._read(Kind.TAKE, into).value
        return None if batch == FREE else batch

    def add(self, change: numpy.ndarray, batch: int) -> None:
        self._number += 1
        update = replace(self._request, kind=Kind.HOLD, number=self._number, value=batch)
        first, *others = [replace(update, body=change[part]) for part in self._parts]
        self._ask(self._links[1:], others)
        self._ask(self._links[:1], [replace(first, kind=Kind.ADD)])

    def ahead(self, workers: Sequence[int]) -> int:
        return self._of_first(Kind.AHEAD, numpy.array(workers, numpy.int64)).value

    def now(self, into: numpy.ndarray) -> int:
        return self._read(Kind.PULL, into).added

    def look(self, into: numpy.ndarray) -> numpy.ndarray:
        found = self._of_first(Kind.SEE).body
        assert found is not None
        into[:] = found[: self._size]
        return found[self._size :] > 0

    def close(self) -> None:
        for link in self._links:
            link.close()

    def _read(self, kind: Kind, into: numpy.ndarray) -> Answer:
        """All parts of the weights; the first server's answer. Tells the others which update counts."""
        others = replace(self._request, number=self._number)
        found = self._ask(self._links, [replace(others, kind=kind), *[others] * (len(self._links) - 1)])
        for part, answer in zip(self._parts, found, strict=True):
            into[part] = answer.body if answer.body is not None else 0
        return found[0]

    def _of_first(self, kind: Kind, body: numpy.ndarray | None = None) -> Answer:
        return self._ask(self._links[:1], [replace(self._request, kind=kind, body=body)])[0]

    def _ask(self, links: Sequence[_Link], asked: Sequence[Request]) -> list[Answer]:
        """All at once, so that no server waits for another."""
        for link, request in zip(links, asked, strict=True):
            link.ask(request)
        return [link.answer() for link in links]


def _within(some: slice, part: slice) -> tuple[int, int]:
    """Where they begin and end in this part."""
    length = part.stop - part.start
    start, stop = (min(max(place - part.start, 0), length) for place in (some.start, some.stop))
    return start, stop


class _Link:
    """To one server, for as long as the muster stands."""

    def __init__(self, address: tuple[str, int], key: bytes, look: Callable[[], None]) -> None:
        self._address = address
        self._key = key
        self._look = look  # raises where waiting is pointless
        self._made: socket.socket | None = None
        self._open: Request | None = None

    def ask(self, request: Request) -> None:
        """Does not wait for the answer."""
        self._open = request
        try:
            if self._made is not None:
                requests.ask(self._made, request)
        except OSError:  # `answer` asks again
            self.close()

    def answer(self) -> Answer:
        """To what was asked for last."""
        assert self._open is not None
        while True:
            try:
                if self._made is None:
                    self._made = self._call()
                    requests.ask(self._made, self._open)
                self._await_word()
                return requests.answered(self._made)
            except (OSError, EOFError, AuthenticationError):
                self.close()
                self._look()
                select.select([], [], [], AGAIN_AFTER)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None

    def _call(self) -> socket.socket:
        made = socket.create_connection(self._address, requests.PATIENCE)
        try:
            requests.trust(made, self._key, called=True)
        except BaseException:
            made.close()
            raise
        return made

    def _await_word(self) -> None:
        """While a server is silent, others may have gone."""
        assert self._made is not None
        waited = 0.0
        while not select.select([self._made], [], [], AGAIN_AFTER)[0]:
            self._look()
            waited += AGAIN_AFTER
            if waited > requests.PATIENCE:
                raise TimeoutError("no answer")
