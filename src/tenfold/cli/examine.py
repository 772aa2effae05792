"""Finds out what is here, for `doctor` and `warm`. Facts as plain values that JSON can hold; nothing is printed.

Whether forked workers are safe is tried, not guessed: a nursery of its own imports every installed framework, one
after the other, and says after each how it is. The nursery that scripts are waiting for is only asked, never used
for this, because what it imports stays in it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import tenfold
from tenfold import engines, frameworks, machine
from tenfold.errors import TenfoldError
from tenfold.frameworks import Framework
from tenfold.machine import cores, installed
from tenfold.machine.gpus import PRETEND_VARIABLE
from tenfold.nursery import client
from tenfold.nursery.client import Client
from tenfold.nursery.wire import Closed, Wire

IMPORT_LIMIT = 60.0  # seconds for all frameworks together


def last_line(text: str) -> str:
    """The line of a traceback that says what happened."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


# -- the machine ------------------------------------------------------------------------------------------------


def software() -> dict[str, str]:
    return {"tenfold": tenfold.__version__, "python": platform.python_version(), "interpreter": sys.executable} | {
        "system": f"{platform.system()} {platform.release()}"
    }


def processors() -> dict[str, Any]:
    """The cores we may use, next to the machine's own, and what makes the difference."""
    usable, mask, quota, whole = machine.look().cpus, len(cores.affinity()), cores.quota(), os.cpu_count() or 1
    limits = [f"the affinity of this process ({mask})"] if mask < whole else []
    if quota is not None and quota < mask:
        limits = [f"the CPU quota of its cgroup ({quota:g})"]
    if machine.SEAT_VARIABLE in os.environ:
        limits = ["the seat of the task that this runs in"]
    return {"usable": usable, "machine": whole, "affinity": mask, "quota": quota, "limited_by": limits}


def memory() -> dict[str, Any]:
    import psutil

    usable, found = machine.look().memory, psutil.virtual_memory()
    limits = ["its cgroup, or the seat of a task"] if usable < found.total else []
    return {"usable": usable, "machine": int(found.total), "free": int(found.available), "limited_by": limits}


def gpus() -> list[dict[str, Any]]:
    pretended = bool(os.environ.get(PRETEND_VARIABLE))
    return [
        {"address": gpu.address, "name": gpu.name, "memory": gpu.memory, "pretended": pretended}
        for gpu in machine.look().gpus
    ]


# -- what is installed ------------------------------------------------------------------------------------------


def found_frameworks() -> dict[str, dict[str, Any]]:
    """Each framework: its version, or the command that installs it."""
    return {name: _package(member.distributions, member.extra) for name, member in frameworks.every().items()}


def found_engines() -> dict[str, dict[str, Any]]:
    """Each engine: built in, or the version of its package, or the command that installs it."""
    return {
        name: _package(packages, name) if (packages := _extra_packages(name)) else {"version": None, "install": None}
        for name in engines.names()
    }


def _package(distributions: tuple[str, ...], extra: str) -> dict[str, Any]:
    version = installed.version(*distributions)
    return {"version": version, "install": installed.command(extra) if version is None else None}


def _extra_packages(extra: str) -> tuple[str, ...]:
    """The packages of one of tenfold's extras, as its own metadata lists them."""
    try:
        lines = metadata.requires("tenfold") or []
    except metadata.PackageNotFoundError:  # run from a folder that was never installed
        return ()
    wanted = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    return tuple(match[0] for line in lines if wanted.search(line) and (match := re.match(r"[\w.-]+", line)))


# -- nurseries --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a nursery that imported every framework."""

    forks: bool
    """Whether workers are forked here."""
    reason: str
    """Why not; empty where they are."""
    seconds: dict[str, float]
    """How long each framework took to import, after those before it."""
    failed: dict[str, str]
    """The last line of the error, by framework."""


def try_nursery(tell: Callable[[str], object]) -> Trial:
    """Start a nursery that imports every installed framework; `tell` is called with what it does."""
    if sys.platform != "linux":
        return Trial(False, f"fork is not safe on {platform.system()}", {}, {})
    if os.environ.get("TENFOLD_START") == "spawn":
        return Trial(False, "TENFOLD_START=spawn", {}, {})
    nursery = client.start()  # not client.get(): that would be the one that waits for scripts
    try:
        return _import_all(nursery, tell)
    finally:
        nursery.close()


def _import_all(nursery: Client, tell: Callable[[str], object]) -> Trial:
    deadline = time.monotonic() + IMPORT_LIMIT
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    members = {name: member for name, member in frameworks.every().items() if installed.version(*member.distributions)}
    for name, member in members.items():
        tell(f"importing {name} in a nursery")
        began = time.monotonic()
        try:
            state = _state_after(nursery, member, deadline)
        except TimeoutError:
            return Trial(False, f"{name} was not imported within {IMPORT_LIMIT:g} s", seconds, failed)
        except Closed:
            why = last_line(nursery.written()) or "it wrote nothing"
            return Trial(False, f"the nursery died while it imported {name}: {why}", seconds, failed)
        seconds[name] = time.monotonic() - began
        errors = [text for module, text in state["failed"].items() if module in member.modules]
        if errors:
            failed[name] = last_line(errors[0])
        if state["unsafe"]:
            return Trial(False, f"after {name}: {state['unsafe']}", seconds, failed)
    return Trial(True, "", seconds, failed)


def _state_after(nursery: Client, member: Framework, deadline: float) -> dict[str, Any]:
    end = nursery.session(member.modules)
    with end:
        end.settimeout(max(0.1, deadline - time.monotonic()))
        (_, state), _ = Wire(end).receive()
    return dict(state)


def time_workers() -> dict[str, Any]:
    """Seconds for a call of two trivial tasks: the first, which starts a nursery, and the next."""
    found: dict[str, Any] = {"first": None, "next": None, "error": ""}
    call = tenfold.map  # imported here, so that this is not part of the time
    try:
        for name in ("first", "next"):
            began = time.perf_counter()
            call(abs, range(2), engine="local", progress=False)
            found[name] = time.perf_counter() - began
    except TenfoldError as error:
        found["error"] = str(error)
    return found
