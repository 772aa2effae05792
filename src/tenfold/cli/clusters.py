"""`tenfold doctor --engine ADDRESS`: the machines of one engine, and the way to each node where it is a cluster.

Facts as plain values that JSON can hold, and the table of them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tenfold import engines, frameworks
from tenfold.cli import examine, say
from tenfold.engines.cluster import Cluster, Clustered, Node, facts, way
from tenfold.engines.cluster.facts import Facts
from tenfold.errors import DoesNotFit
from tenfold.machine import Machine
from tenfold.plan.needs import Needs, readable
from tenfold.plan.seats import cut

TRIPS = 5  # of which the median counts; one more goes first, which opens the connection
LOAD = 8 << 20  # bytes sent there and back: enough to fill a fast network for some milliseconds


# -- finding out ------------------------------------------------------------------------------------------------


def look(address: str, tell: Callable[[str], object]) -> dict[str, Any]:
    """What the engine at `address` has; `tell` is called with what is done. Raises what a call would raise."""
    engine = engines.find(address)
    tell(f"looking for {address}")
    machines = engine.machines()
    found: dict[str, Any] = {"engine": address, "software": examine.software()}
    if not isinstance(engine, Clustered):
        most = None if engine.abilities.parallel else 1
        return found | {"machines": [_machine(machine, most) for machine in machines]}
    cluster, here = engine.cluster(), facts.look()
    found |= {"address": cluster.address, "here": {"python": here.python, "versions": here.versions}, "nodes": []}
    for node in cluster.nodes():
        tell(f"timing the way to {node.name}")
        found["nodes"].append(_node(node, here) | _way(cluster, node))
    return found


def _machine(machine: Machine, most: int | None = None) -> dict[str, Any]:
    gpus = [
        {"address": gpu.address, "name": gpu.name, "memory": gpu.memory, "share": gpu.share} for gpu in machine.gpus
    ]
    return {"cpus": machine.cpus, "memory": machine.memory, "gpus": gpus, "seats": _seats(machine, most)}


def _seats(machine: Machine, most: int | None) -> int:
    """How many tasks at once, where each needs one core, and the engine runs so many at the most."""
    try:
        return len(cut(machine, Needs(), most))
    except DoesNotFit:
        return 0


def _node(node: Node, here: Facts) -> dict[str, Any]:
    return {
        "name": node.name,
        "host": node.facts.hostname,
        "is_this_machine": node.facts.host == here.host,
        **_machine(node.machine),
        "python": node.facts.python,
        "versions": node.facts.versions,
        "differences": facts.differences(here, node.facts, frameworks.every()),
    }


def _way(cluster: Cluster, node: Node) -> dict[str, Any]:
    """Seconds there and back, and bytes in a second, as tenfold's own content goes."""
    found: dict[str, Any] = {"round_trip": None, "bandwidth": None, "error": ""}
    try:
        trips = [way.trip(cluster, node) for _ in range(TRIPS + 1)]
        found["round_trip"] = statistics.median(trips[1:])
        seconds = min(way.trip(cluster, node, os.urandom(LOAD)) for _ in range(2))
        found["bandwidth"] = 2 * LOAD / seconds
    except Exception as error:  # it left while we looked: told, and the others are looked at
        found["error"] = f"{type(error).__name__}: {error}"
    return found


# -- showing ----------------------------------------------------------------------------------------------------


def show(found: dict[str, Any]) -> None:
    screen = say.screen()
    machines = found.get("nodes", found.get("machines", []))
    seats = sum(machine["seats"] for machine in machines)
    there = _counted(machines, "node" if "nodes" in found else "machine")
    counted = f"{there}, {_counted(range(seats), 'task')} of one core at once"
    where = f" ({found['address']})" if found.get("address", found["engine"]) != found["engine"] else ""
    screen.print(f"engine {found['engine']}{where}: {counted}", style="bold")
    number = ("seats", "cores", "memory", "GPUs")
    if "nodes" not in found:
        table = say.table(*number, right=number)
        for machine in machines:
            table.add_row(*_amounts(machine))
        say.show(table)
    else:
        table = say.table("node", "host", *number, "round trip", "bandwidth", "versions", right=number)
        for node in machines:
            host = f"{node['host']} (this machine)" if node["is_this_machine"] else node["host"]
            table.add_row(node["name"], host, *_amounts(node), *_told(node))
        say.show(table, _versions(found["here"], machines))


def _versions(here: dict[str, Any], nodes: list[dict[str, Any]]) -> Table:
    """What is installed: a line for each package, a column for all nodes that have the same of everything."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in nodes:
        alike.setdefault(tuple(sorted(_installed(node).items())), []).append(node["name"])
    columns = [_installed(here), *map(dict, alike)]
    table = say.table("installed", "here", *("\n".join(names) for names in alike.values()))
    for package in dict.fromkeys(name for column in columns for name in column):
        told = [column.get(package, "-") for column in columns]
        styles = ["", *("" if version == told[0] else "yellow" for version in told[1:])]
        table.add_row(package, *map(Text, told, styles))
    return table


def _installed(of: dict[str, Any]) -> dict[str, str]:
    return {"Python": of["python"], **of["versions"]}


def _counted(things: Sequence[Any], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _amounts(machine: dict[str, Any]) -> tuple[str, str, str, str]:
    gpus = sum(gpu["share"] for gpu in machine["gpus"])
    return str(machine["seats"]), f"{machine['cpus']:g}", readable(machine["memory"]), f"{gpus:g}"


def _told(node: dict[str, Any]) -> tuple[Text, str, Text]:
    faults = node["differences"]
    versions = Text("; ".join(faults), style="yellow") if faults else Text("as here", style="green")
    if node["error"]:
        return Text(node["error"], style="red"), "", versions
    return Text(say.took(node["round_trip"])), f"{readable(round(node['bandwidth']))}/s", versions
