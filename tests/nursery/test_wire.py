"""Messages with descriptors: whole, in order, to a slow reader, to nobody, and without losing a descriptor."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.nursery.wire import Closed, Wire

Pair = tuple[Wire, Wire]


@contextlib.contextmanager
def wires(*, blocking: bool = True) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(blocking)
    theirs.setblocking(blocking)
    pair = Wire(ours), Wire(theirs)
    try:
        yield pair
    finally:
        for wire in pair:
            wire.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with wires() as found:
        yield found


@pytest.fixture
def unblocked() -> Iterator[Pair]:
    with wires(blocking=False) as found:
        yield found


@pytest.fixture(autouse=True)
def no_descriptor_is_lost() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


@contextlib.contextmanager
def pipes(count: int) -> Iterator[list[tuple[int, int]]]:
    found = [os.pipe() for _ in range(count)]
    try:
        yield found
    finally:
        for end in (end for both in found for end in both):
            with contextlib.suppress(OSError):
                os.close(end)


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [("ready", 5), (), ("text", "é" * 1000, None, {"a": [1]}), ("data", b"\0" * 300)])
def test_a_message(pair: Pair, message: tuple[Any, ...]) -> None:
    pair[0].send(message)
    assert pair[1].receive() == (message, [])


def test_messages_come_in_order_and_both_ways(pair: Pair) -> None:
    for n in range(200):
        pair[0].send(("to", n))
        pair[1].send(("fro", n))
    assert [pair[1].receive()[0] for _ in range(200)] == [("to", n) for n in range(200)]
    assert [pair[0].receive()[0] for _ in range(200)] == [("fro", n) for n in range(200)]


@given(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 3)), max_size=8), st.data())
def test_however_the_bytes_are_cut(messages: list[tuple[bytes, int]], data: st.DataObject) -> None:
    """A stream socket keeps the bytes, not where one message ends."""
    source_end, relay_end = socket.socketpair()
    into, out = socket.socketpair()
    source, target = Wire(source_end), Wire(out)
    try:
        out.setblocking(False)
        for body, _ in messages:
            source.send((body,))
        source_end.shutdown(socket.SHUT_WR)
        content = b"".join(iter(lambda: relay_end.recv(65536), b""))
        found = []
        while content:
            cut = data.draw(st.integers(1, len(content)))
            into.sendall(content[:cut])
            content = content[cut:]
            found += [message for message, _ in target.arrived()]
        assert found == [(body,) for body, _ in messages]
        assert not target.ended
    finally:
        source.close()
        target.close()
        relay_end.close()
        into.close()


def test_nothing_is_there_yet(unblocked: Pair) -> None:
    assert list(unblocked[1].arrived()) == []
    assert not unblocked[1].ended


def test_everything_that_has_arrived(unblocked: Pair) -> None:
    for n in range(5):
        unblocked[0].send((n,))
    assert [message for message, _ in unblocked[1].arrived()] == [(n,) for n in range(5)]


# -- a reader that is slower than the writer --------------------------------------------------------------------------


def test_a_big_message_through_a_full_socket(unblocked: Pair) -> None:
    writer, reader = unblocked
    body = os.urandom(5_000_000)
    with pipes(2) as given_pipes:
        writer.send(("small",), [given_pipes[0][0]])
        writer.send(("big", body), [given_pipes[1][0]])
        writer.send(("after",))
        assert writer.unsent
        assert not writer.flush()  # the socket is full, and we are not kept waiting
        found: list[Any] = []
        rounds = 0
        while len(found) < 3:
            found += list(reader.arrived())
            writer.flush()
            rounds += 1
        assert rounds > 3
        assert not writer.unsent
        assert writer.flush()
        assert [message[0] for message, _ in found] == ["small", "big", "after"]
        assert found[1][0][1] == body
        for place, number in enumerate([1, 1, 0]):
            assert len(found[place][1]) == number
        for place in (0, 1):
            os.write(given_pipes[place][1], b"through pipe %d" % place)
            assert os.read(found[place][1][0], 100) == b"through pipe %d" % place
            os.close(found[place][1][0])


def test_a_big_message_on_a_blocking_socket(pair: Pair) -> None:
    body = os.urandom(3_000_000)
    received: list[Any] = []
    reader = threading.Thread(target=lambda: received.append(pair[1].receive()))
    reader.start()
    pair[0].send(("big", body))  # returns when all of it is written
    reader.join()
    assert received == [(("big", body), [])]
    assert not pair[0].unsent


def test_descriptors_that_were_never_sent_are_closed() -> None:
    with wires(blocking=False) as (writer, _), pipes(3) as given_pipes:
        writer.send(("big", bytes(5_000_000)))
        for read_end, _ in given_pipes:
            writer.send(("waits",), [read_end])
        assert writer.unsent


# -- descriptors ------------------------------------------------------------------------------------------------------


def test_descriptors_come_with_their_message_and_in_order(pair: Pair) -> None:
    with pipes(6) as given_pipes:
        ends = [read_end for read_end, _ in given_pipes]
        pair[0].send(("none",))
        pair[0].send(("three",), ends[:3])
        pair[0].send(("none",))
        pair[0].send(("one",), ends[3:4])
        pair[0].send(("two",), ends[4:])
        found = [pair[1].receive() for _ in range(5)]
        assert [len(handles) for _, handles in found] == [0, 3, 0, 1, 2]
        handles = [handle for _, several in found for handle in several]
        for n, handle in enumerate(handles):
            os.write(given_pipes[n][1], b"%d" % n)
            assert os.read(handle, 10) == b"%d" % n
            assert fcntl.fcntl(handle, fcntl.F_GETFD) & fcntl.FD_CLOEXEC  # not for the processes that we start
            os.close(handle)


def test_the_sender_may_close_its_descriptor_at_once(unblocked: Pair) -> None:
    writer, reader = unblocked
    writer.send(("big", bytes(2_000_000)))
    read_end, write_end = os.pipe()
    writer.send(("pipe",), [read_end])
    os.close(read_end)
    found: list[Any] = []
    while len(found) < 2:
        found += list(reader.arrived())
        writer.flush()
    (handle,) = found[1][1]
    os.write(write_end, b"still open")
    assert os.read(handle, 100) == b"still open"
    os.close(handle)
    os.close(write_end)


def test_descriptors_that_nobody_took_are_closed() -> None:
    """The messages were read from the socket, and then the reader gave up."""
    with wires(blocking=False) as (writer, reader), pipes(2) as given_pipes:
        writer.send(("first",), [given_pipes[0][0]])
        writer.send(("second",), [given_pipes[1][0]])
        ((_, handles),) = [next(reader.arrived())]
        os.close(handles[0])


# -- the other side is gone -------------------------------------------------------------------------------------------


def test_what_was_sent_before_the_end_is_read(pair: Pair) -> None:
    pair[0].send(("last words",))
    pair[0].socket.close()
    assert pair[1].receive()[0] == ("last words",)
    with pytest.raises(Closed):
        pair[1].receive()
    with pytest.raises(Closed):
        pair[1].receive()
    assert pair[1].ended


def test_the_end_is_seen_without_waiting(unblocked: Pair) -> None:
    unblocked[0].send(("last words",))
    unblocked[0].socket.close()
    assert [message for message, _ in unblocked[1].arrived()] == [("last words",)]
    assert unblocked[1].ended
    assert list(unblocked[1].arrived()) == []


def test_half_a_message_is_no_message(pair: Pair) -> None:
    pair[0].socket.sendall(b"\xff\0\0\0\0half")
    pair[0].socket.close()
    with pytest.raises(Closed):
        pair[1].receive()


@pytest.mark.parametrize("blocking", [True, False])
def test_sending_to_nobody(blocking: bool) -> None:
    with wires(blocking=blocking) as (writer, reader), pipes(1) as given_pipes:
        reader.socket.close()
        with pytest.raises(Closed):
            writer.send(("hello",), [given_pipes[0][0]])


def test_a_peer_that_goes_while_a_message_is_under_way() -> None:
    with wires(blocking=False) as (writer, reader):
        writer.send(("big", bytes(5_000_000)))
        list(reader.arrived())
        reader.socket.close()
        with pytest.raises(Closed):
            writer.flush()


def test_a_peer_that_resets_the_connection(unblocked: Pair) -> None:
    """It closes with unread data: the kernel says ECONNRESET, and that is an end like any other."""
    unblocked[0].send(("never read",))
    unblocked[1].send(("sent before",))
    unblocked[1].socket.close()
    messages = [message for message, _ in unblocked[0].arrived()]
    messages += [message for message, _ in unblocked[0].arrived()]
    assert messages in ([("sent before",)], [])
    assert unblocked[0].ended


def test_it_can_be_waited_for(unblocked: Pair) -> None:
    import select

    assert select.select([unblocked[1]], [], [], 0)[0] == []
    unblocked[0].send(("here",))
    assert select.select([unblocked[1]], [], [], 5)[0] == [unblocked[1]]
