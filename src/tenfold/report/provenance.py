"""On what a call ran: machine, versions and command. Kept with its run, since a report may be made elsewhere."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy

import tenfold
from tenfold import frameworks
from tenfold.machine import Machine, installed


def provenance(machines: Sequence[Machine], members: Iterable[str]) -> dict[str, Any]:
    """Of a call that begins now on `machines`, with these frameworks."""
    return {"machine": machine_facts(machines), "versions": versions(members), "command": command()}


def machine_facts(machines: Sequence[Machine]) -> dict[str, Any]:
    """What there is to work with, in all."""
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "machines": len(machines),
        "cores": sum(machine.cpus for machine in machines),
        "memory": sum(machine.memory for machine in machines),
        "gpus": [gpu.name or gpu.address for machine in machines for gpu in machine.gpus],
    }


def versions(members: Iterable[str]) -> dict[str, str]:
    """Of tenfold, Python and these frameworks, as far as they are installed."""
    found: dict[str, str | None] = {"tenfold": tenfold.__version__, "Python": platform.python_version()}
    found["numpy"] = numpy.__version__
    for name in members:
        member = frameworks.every()[name]
        # To ask the module takes no time; to ask what is installed, 16 ms for the first.
        known = getattr(sys.modules.get(member.modules[0]), "__version__", None)
        found[name] = str(known) if known is not None else installed.version(*member.distributions)
    return {name: version for name, version in found.items() if version is not None}


def command() -> str | None:
    """What was typed: a command of tenfold's as a whole, of a script its name alone, since arguments may be secret."""
    name = Path(sys.argv[0]) if sys.argv and sys.argv[0] else None
    if name is None:
        return None
    if name.name == "tenfold" or name.parts[-3:] == ("tenfold", "cli", "__main__.py"):
        return shlex.join(["tenfold", *sys.argv[1:]])
    return f"python {shlex.quote(name.name)}" if name.suffix == ".py" else None
