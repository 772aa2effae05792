"""What a worker asks of a parameter server, and how it travels: some numbers, then an array, both ways.

look      to the first server, by the first worker: which epoch it holds, and the last update of each worker in it
settle    to the others: the same, after updates that the first one has counted were added, and others dropped
begin     an epoch, with these weights
resume    the one that it holds: what was taken and not finished can be taken again; these batches are done besides
take      to the first server: the next batch, and the weights of its part
pull      to the others: the weights of their parts
hold      to the others: an update, which is added when the first one has counted it
add       to the first server: an update, which counts from then on
ahead     to the first server: how many steps a worker is ahead
see       to the only server: the weights, and behind them flags of the batches that are done
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import numpy

PATIENCE = 10  # seconds without a byte, in the middle of something, after which a connection counts as broken
_HEAD = struct.Struct("<10q")


class Kind(IntEnum):
    """What is asked for."""

    LOOK = 1
    SETTLE = 2
    BEGIN = 3
    RESUME = 4
    TAKE = 5
    PULL = 6
    HOLD = 7
    ADD = 8
    AHEAD = 9
    SEE = 10


@dataclass(frozen=True, slots=True)
class Request:
    """What a worker asks for."""

    kind: Kind
    """Which of them."""
    muster: int
    """In which the worker is; one of an earlier muster is not answered."""
    worker: int
    """Which one it is."""
    number: int = 0
    """Of an update, counted by the worker from 1; where it asks for something else, its last one that counts."""
    value: int = 0
    """A batch, or an epoch."""
    count: int = 0
    """Batches of an epoch."""
    workers: int = 0
    """How many there are."""
    averages: tuple[int, int] = (0, 0)
    """Of `begin`: from where to where weights are averages, whose new values come with each update."""
    body: numpy.ndarray | None = None
    """Weights, what changes them, or numbers of workers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says."""

    value: int = 0
    """What was asked for; of `look` and `settle` the epoch."""
    begun: int = 0
    """The muster in which that epoch began."""
    added: int = 0
    """Updates of this epoch that count."""
    body: numpy.ndarray | None = None
    """Weights, or numbers of updates."""


def trust(made: socket.socket, key: bytes, *, called: bool) -> None:
    """Let both ends prove that they belong to the call, before anything else is read; raises where one cannot."""
    limit = struct.pack("ll", PATIENCE, 0)
    made.setblocking(True)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with Connection(os.dup(made.fileno())) as wire:
        for step in (answer_challenge, deliver_challenge)[:: 1 if called else -1]:
            step(wire, key)


def ask(made: socket.socket, request: Request) -> None:
    """In a worker."""
    one = request
    numbers = (one.kind, one.muster, one.worker, one.number, one.value, one.count, one.workers, *one.averages)
    _send(made, numbers, one.body)


def asked(made: socket.socket) -> Request:
    """In a server."""
    (kind, muster, worker, number, value, count, workers, *averages), body = _receive(made)
    found = Kind(kind)
    array = _array(body, numpy.int64 if found in _OF_NUMBERS else numpy.float32)
    return Request(found, muster, worker, number, value, count, workers, (averages[0], averages[1]), array)


def answer(made: socket.socket, found: Answer) -> None:
    """In a server."""
    whole = found.body is None or found.body.dtype == numpy.int64
    _send(made, (found.value, found.begun, found.added, int(whole), 0, 0, 0, 0, 0), found.body)


def answered(made: socket.socket) -> Answer:
    """In a worker."""
    (value, begun, added, whole, *_), body = _receive(made)
    return Answer(value, begun, added, _array(body, numpy.int64 if whole else numpy.float32))


_OF_NUMBERS = (Kind.SETTLE, Kind.RESUME, Kind.AHEAD)


def _send(made: socket.socket, numbers: tuple[int, ...], body: numpy.ndarray | None) -> None:
    content = b"" if body is None else body.data.cast("B")
    made.sendall(_HEAD.pack(*numbers, len(content)))
    if len(content):
        made.sendall(content)


def _receive(made: socket.socket) -> tuple[list[int], bytearray]:
    head = _HEAD.unpack(_exactly(made, _HEAD.size))
    return list(head[:-1]), _exactly(made, head[-1])


def _exactly(made: socket.socket, length: int) -> bytearray:
    found = bytearray(length)
    left = memoryview(found)
    while left:
        count = made.recv_into(left)
        if not count:
            raise ConnectionResetError("the other end is gone")
        left = left[count:]
    return found


def _array(body: bytearray, kind: type) -> numpy.ndarray | None:
    return numpy.frombuffer(body, kind) if body else None
