"""Connections between the caller and its workers: only who can prove that it belongs to the call is let in."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

import psutil

from tenfold.errors import WorkersUnavailable
from tenfold.machine.host import host

LOOPBACK = "127.0.0.1"
WIRE_PATIENCE = 10  # seconds that one message may take
CONNECT = 10.0  # seconds for one of the caller's addresses


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a worker needs to find the caller, and to be let in."""

    host: str
    """The caller's machine."""
    addresses: tuple[str, ...]
    """By which other machines may reach it."""
    port: int
    """Where it listens."""
    key: bytes
    """Proves that one belongs to the call."""
    count: int
    """How many workers there are."""


@dataclass(frozen=True, slots=True)
class Message:
    """What goes over a wire, either way."""

    kind: str
    """What it is."""
    value: Any = None
    """What it says."""


class Gate:
    """In the caller: where workers come in."""

    def __init__(self, count: int, *, everywhere: bool) -> None:
        """`everywhere` lets other machines in."""
        key = os.urandom(32)
        self.socket = socket.create_server(("0.0.0.0" if everywhere else LOOPBACK, 0), backlog=128)
        """Can be read when somebody is there."""
        port = self.socket.getsockname()[1]
        self.ticket = Ticket(host(), _own_addresses() if everywhere else (), port, key, count)
        """For the workers."""
        self.over, self._bell = socket.socketpair()
        """Can be read when nobody is waited for any more."""

    def admit(self) -> tuple[Connection, str] | None:
        """The next one, and the caller's own address on its wire; None for a stranger."""
        accepted, _ = self.socket.accept()
        limit = struct.pack("ll", WIRE_PATIENCE, 0)  # nobody who only connects may keep us waiting
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        near = str(accepted.getsockname()[0])
        wire = Connection(accepted.detach())
        try:
            deliver_challenge(wire, self.ticket.key)
            answer_challenge(wire, self.ticket.key)
        except (AuthenticationError, OSError, EOFError):
            wire.close()
            return None
        return wire, near

    def end(self) -> None:
        """Whoever waits at it need not wait any more."""
        self._bell.close()

    def close(self) -> None:
        for one in (self.socket, self.over, self._bell):
            one.close()


def connected(ticket: Ticket) -> tuple[Connection, str]:
    """In a worker: the wire to the caller, and this worker's own address on it."""
    addresses = (LOOPBACK,) if ticket.host == host() else ticket.addresses
    faults = []
    for address in addresses:
        try:
            made = socket.create_connection((address, ticket.port), CONNECT)
            made.settimeout(None)
            near = str(made.getsockname()[0])
            wire = Connection(made.detach())
            answer_challenge(wire, ticket.key)
            deliver_challenge(wire, ticket.key)
        except (OSError, EOFError, AuthenticationError) as error:
            faults.append(f"{address}: {error}")
        else:
            return wire, near
    raise WorkersUnavailable(
        f"a worker cannot reach the caller at port {ticket.port}: {'; '.join(faults) or 'it has no address'}"
    )


def of_call(key: bytes) -> str:
    """For names of files: what another call has left may have been torn when it was killed."""
    return hashlib.blake2b(key, digest_size=8).hexdigest()


def listen(ticket: Ticket, own: str) -> socket.socket:
    """In a worker: where others reach it, by its own address on its wire.

    Beside the caller that is the loopback device's, which nobody elsewhere can reach, and by which address they come is
    known only when they have come; so there it listens as the caller does.
    """
    everywhere = own == LOOPBACK and ticket.addresses
    return socket.create_server(("0.0.0.0" if everywhere else own, 0), backlog=128)


def _own_addresses() -> tuple[str, ...]:
    """Of this machine, as others may reach it."""
    found = [one.address for each in psutil.net_if_addrs().values() for one in each if one.family == socket.AF_INET]
    return tuple(address for address in found if not address.startswith("127."))
