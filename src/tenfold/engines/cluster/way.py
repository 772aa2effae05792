"""How long the way to a node is: for `tenfold doctor`, and for how many tasks go together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tenfold.engines.cluster import Cluster, Node
from tenfold.plan.choose import Abilities

TRIPS = 3  # of which the fastest counts: what it costs, not what happened to be in its way
ASKED = 8  # nodes at the most: a trip takes milliseconds, and a call waits for them
LEGS = 2  # trips that a batch makes: orders, and the question what has become of them


def trip(cluster: Cluster, node: Node, data: bytes = b"") -> float:
    """Seconds for some bytes there and back, as tenfold's own content goes."""
    began = time.perf_counter()
    cluster.echo(node.name, data)
    return time.perf_counter() - began


class Connection(Cluster, Protocol):
    """A cluster that remembers what was measured of it."""

    seconds_per_batch: float | None


def measured(abilities: Abilities, cluster: Connection, nodes: Sequence[Node]) -> Abilities:
    """An engine's abilities with what a batch costs on this cluster; measured once."""
    if cluster.seconds_per_batch is None:
        with contextlib.suppress(Exception):  # a node that has just left: the next call asks again
            cluster.seconds_per_batch = seconds_per_batch(cluster, nodes)
    return replace(abilities, seconds_per_batch=cluster.seconds_per_batch or abilities.seconds_per_batch)


def seconds_per_batch(cluster: Cluster, nodes: Sequence[Node]) -> float:
    """What it costs to send a batch and to hear of it, from the farthest of some nodes."""
    chosen = nodes[:: -(-len(nodes) // ASKED)]
    return LEGS * max(min(trip(cluster, node) for _ in range(TRIPS)) for node in chosen)
