"""Crews on other machines: what every cluster engine shares. A folder, so it is no engine itself.

    caller                                   node (a Dask worker, a Ray node)
    ClusterCrew ── hire(contract) ─────────> Foreman ── LocalCrew ── the machine's nursery ── workers
         │ ──────── tell(orders) ──────────>    │
         │ <─────── hear() ─ events ────────    │       events: those of `tenfold.engines`, unchanged

A foreman runs batches on its node as the local engine does, so a task behaves there as it does here. The cluster's
own library carries the messages and says which nodes there are; it never sees a task, an item or a result, only
bytes. Nothing here opens a port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tenfold.engines import Event
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.errands import Filed
from tenfold.engines.cluster.facts import Facts
from tenfold.machine import Machine
from tenfold.plan.seats import Seat


@dataclass(frozen=True, slots=True)
class Node:
    """A place in a cluster where a foreman can be."""

    name: str
    """What the cluster calls it."""
    machine: Machine
    """What may be divided there."""
    facts: Facts
    """What is installed there, and which machine it is on."""


class Post(Protocol):
    """A foreman, seen from the caller. Every method may be called from any thread, and raises when it is gone."""

    def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        """Give orders; does not wait for them to be done."""
        ...

    def hear(self) -> list[Event | Filed]:
        """What has happened since the last call; waits on the node for something, at most `foreman.HEARTBEAT`."""
        ...

    def close(self) -> None:
        """End the foreman and everything that it started."""
        ...


class Cluster(Protocol):
    """A connection to a cluster."""

    address: str

    def nodes(self) -> list[Node]:
        """Which nodes there are now; raises `ClusterLost` when the cluster itself is gone."""
        ...

    def deliver(self, name: str, notice: Notice, place: int, chunk: bytes) -> None:
        """Call `content.add(notice, place, chunk)` on a node."""
        ...

    def has(self, name: str, notice: Notice) -> bool:
        """Call `content.has(notice)` on a node."""
        ...

    def echo(self, name: str, data: bytes) -> bytes:
        """Call `content.echo(data)` on a node: the way there and back, as content goes."""
        ...

    def hire(self, node: Node, seats: Sequence[Seat], contract: bytes, call: int) -> Post:
        """Start a foreman on a node, holding what `seats` need there; once for all foremen of one `call`."""
        ...


@runtime_checkable
class Clustered(Protocol):
    """An engine whose machines are the nodes of a cluster."""

    def cluster(self) -> Cluster:
        """Its connection, once `machines()` has been asked."""
        ...
