"""In a parameter server: a task that the engine has placed. Holds a part of the weights until the training is over.

Listens where the ring would, and lets in only who can prove that it belongs to the call. A thread for each worker reads
a whole request before anything is changed, so what a killed worker has sent by half is dropped.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, wait

from tenfold.machine.host import host
from tenfold.training import requests
from tenfold.training.muster import Serving
from tenfold.training.pulse import Pulse
from tenfold.training.shard import Shard, Stale
from tenfold.training.signs import BEAT_EVERY
from tenfold.training.wires import Message, Ticket, connected, listen


class Server:
    """The task; its item is which part of the weights it holds."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def __call__(self, part: int) -> None:
        wire, own = connected(self._ticket)
        with wire, contextlib.closing(Pulse(self._ticket)), listen(self._ticket, own) as listener:
            address = own, listener.getsockname()[1]
            wire.send(Message("serve", Serving(part, host(), os.getpid(), address)))
            with Counter(listener, self._ticket.key):
                _stay(wire)

    @property
    def __name__(self) -> str:
        return "parameter server"


def _stay(wire: Connection) -> None:
    """Say that this process lives, until the caller says that it is over, or is gone."""
    with contextlib.suppress(OSError, EOFError):
        next_beat = time.monotonic()
        while not wait([wire], max(0.0, next_beat - time.monotonic())):
            wire.send(Message("beat"))
            next_beat = time.monotonic() + BEAT_EVERY
            # Whatever the caller sends is the end: "change" and "muster" are for workers.


class Counter:
    """Serves a shard to all who come, in threads, until it is left."""

    def __init__(self, listener: socket.socket, key: bytes) -> None:
        self._listener = listener
        self._key = key
        self._shard = Shard()
        self._over, self._bell = socket.socketpair()
        self._door = threading.Thread(target=self._admit, daemon=True, name="tenfold-server")
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        self._door.start()

    def __exit__(self, *_error: object) -> None:
        self._bell.close()  # whoever waits for a request hears that
        self._door.join()
        for thread in self._threads:
            thread.join()
        self._over.close()

    def _admit(self) -> None:
        while self._over not in (ready := select.select([self._over, self._listener], [], [])[0]):
            made = ready[0].accept()[0]
            thread = threading.Thread(target=self._serve, args=(made,), daemon=True, name="tenfold-server")
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _serve(self, made: socket.socket) -> None:
        """One worker, until it goes, or is one of those who were given up."""
        with made, contextlib.suppress(OSError, EOFError, AuthenticationError, Stale):
            requests.trust(made, self._key, called=False)
            while self._over not in select.select([self._over, made], [], [])[0]:
                requests.answer(made, self._shard.answer(requests.asked(made)))
