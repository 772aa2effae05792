"""Adds up the vectors of workers on several machines: every worker talks to its two neighbours in a ring.

A vector is cut into as many chunks as there are workers. In a first round each chunk goes once around and is added up
on the way; in a second one the sums go around. So every worker sends about twice its vector, however many there are,
and all of them have the same sums, bit for bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import select
import socket
import struct

import numpy

from tenfold.training.adding import Ask, Slots
from tenfold.training.muster import Muster

LOOK_EVERY = 0.05  # seconds of waiting after which it is asked whether that is pointless
PATIENCE = 5.0  # seconds that a neighbour may take to say who it is
_HELLO = struct.Struct("<qq32s")


class Ring(Slots):
    """This worker's place in it."""

    def __init__(self, muster: Muster, rank: int, size: int, listener: socket.socket, key: bytes, ask: Ask) -> None:
        super().__init__(rank, len(muster.arrivals))
        self.slot = numpy.zeros(size, numpy.float32)
        self._total = numpy.zeros(size, numpy.float32)
        self._chunks = [slice(size * n // self.count, size * (n + 1) // self.count) for n in range(self.count)]
        following = muster.arrivals[(rank + 1) % self.count].address
        assert following is not None
        self._out = _call(following, _hello(muster.number, rank, key), ask)
        self._in = _answer(listener, _hello(muster.number, (rank - 1) % self.count, key), ask)
        for one in (self._out, self._in):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._out.close()
        self._in.close()

    def add(self, turn: int, ask: Ask) -> numpy.ndarray:
        total, count = self._total, self.count
        total[:] = self.slot
        coming = numpy.empty(max(chunk.stop - chunk.start for chunk in self._chunks), numpy.float32)
        for turns in range(count - 1):
            sent, received = (self._chunks[(self.rank - turns - back) % count] for back in (0, 1))
            into = coming[: received.stop - received.start]
            self._exchange(total[sent], into, ask)
            total[received] += into
        for turns in range(count - 1):
            sent, received = (self._chunks[(self.rank + 1 - turns - back) % count] for back in (0, 1))
            self._exchange(total[sent], total[received], ask)
        return total

    def _exchange(self, out: numpy.ndarray, into: numpy.ndarray, ask: Ask) -> None:
        """Send to the one after us while the one before us sends to us."""
        sending, receiving = out.data.cast("B"), into.data.cast("B")
        while sending or receiving:
            readable, writable, _ = select.select(
                [self._in] if receiving else [], [self._out] if sending else [], [], LOOK_EVERY
            )
            if not readable and not writable:
                self._ask(ask)
            try:
                if writable:
                    sending = sending[self._out.send(sending) :]
                if readable:
                    count = self._in.recv_into(receiving)
                    receiving = receiving[count:]
                    if not count:
                        self._await_change(ask)
            except OSError:
                self._await_change(ask)

    def _ask(self, ask: Ask) -> None:
        ask(lambda: [(self.rank - 1) % self.count])

    def _await_change(self, ask: Ask) -> None:
        """A neighbour is gone: the roll will say so."""
        while True:
            self._ask(ask)
            select.select([], [], [], LOOK_EVERY)


def _hello(number: int, rank: int, key: bytes) -> bytes:
    """Proves that a neighbour belongs to this muster."""
    proof = hmac.new(key, f"{number} {rank}".encode(), hashlib.sha256).digest()
    return _HELLO.pack(number, rank, proof)


def _call(address: tuple[str, int], hello: bytes, ask: Ask) -> socket.socket:
    while True:
        try:
            found = socket.create_connection(address, timeout=PATIENCE)
            found.sendall(hello)
        except OSError:
            ask(list)
            select.select([], [], [], LOOK_EVERY)
        else:
            return found


def _answer(listener: socket.socket, hello: bytes, ask: Ask) -> socket.socket:
    """The connection of the one before us; others are closed: strangers, and those of an earlier muster."""
    while True:
        if not select.select([listener], [], [], LOOK_EVERY)[0]:
            ask(list)
            continue
        found, _ = listener.accept()
        found.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            if hmac.compare_digest(_exactly(found, len(hello)), hello):
                return found
        found.close()


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = connection.recv(length - len(found))
        if not more:
            break
        found += more
    return found
