"""Messages with file descriptors over a Unix socket: [length][descriptors][pickle].

One side may read and write without blocking (the caller, who has many wires); the other blocks (the worker).
"""

from __future__ import annotations

import array
import os
import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

_HEAD = struct.Struct("<IB")
_CHUNK = 256 << 10
_MOST_DESCRIPTORS = 253  # the kernel's own limit for one message


class Closed(Exception):
    """The other side is gone."""


class Wire:
    """One end of a socket. Not thread-safe: one thread reads and writes it."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._incoming = bytearray()
        self._descriptors: deque[int] = deque()
        self._outgoing: deque[tuple[memoryview, list[int]]] = deque()
        self._ended = False

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket, and every descriptor that was not sent or not taken."""
        unsent = [handle for _, handles in self._outgoing for handle in handles]
        for handle in (*self._descriptors, *unsent):
            os.close(handle)
        self._descriptors.clear()
        self._outgoing.clear()
        self.socket.close()

    # -- writing ------------------------------------------------------------------------------------------------

    def send(self, message: tuple[Any, ...], descriptors: Sequence[int] = ()) -> None:
        """Queue a message and write what the socket takes now; on a blocking socket that is all of it.

        The caller may close the descriptors afterwards: the wire sends copies of them.
        """
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        copies = [os.dup(handle) for handle in descriptors]
        self._outgoing.append((memoryview(_HEAD.pack(len(body), len(copies)) + body), copies))
        self.flush()

    def flush(self) -> bool:
        """Write what the socket takes; True when nothing is left."""
        while self._outgoing:
            data, descriptors = self._outgoing[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self.socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError as error:
                raise Closed(str(error)) from error
            for handle in descriptors:
                os.close(handle)  # they went with the first byte
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (data[sent:], [])
        return True

    @property
    def unsent(self) -> bool:
        """Something waits for room in the socket."""
        return bool(self._outgoing)

    # -- reading ------------------------------------------------------------------------------------------------

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for the next message; raises Closed where there will be none."""
        while True:
            for message in self._messages():
                return message
            if self._ended or not self._fill():
                raise Closed("the other side has closed the connection")

    def arrived(self) -> Iterator[tuple[Any, list[int]]]:
        """Every message that is there now, without waiting."""
        try:
            while not self._ended and self._fill():
                yield from self._messages()
        except BlockingIOError:
            pass
        yield from self._messages()

    @property
    def ended(self) -> bool:
        """The other side has closed, and everything that it sent has been read."""
        return self._ended

    def _fill(self) -> bool:
        room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self.socket.recvmsg(_CHUNK, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except ConnectionError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                handles = array.array("i")
                handles.frombytes(content[: len(content) - len(content) % handles.itemsize])
                self._descriptors.extend(handles)
        self._incoming += data
        self._ended = self._ended or not data
        return bool(data)

    def _messages(self) -> Iterator[tuple[Any, list[int]]]:
        while len(self._incoming) >= _HEAD.size:
            length, count = _HEAD.unpack_from(self._incoming)
            if len(self._incoming) < _HEAD.size + length:
                return
            body = bytes(self._incoming[_HEAD.size : _HEAD.size + length])
            del self._incoming[: _HEAD.size + length]
            yield pickle.loads(body), [self._descriptors.popleft() for _ in range(count)]
