"""What is installed on a node, and on which machine it is; and what must be equal here and there."""

from __future__ import annotations

import functools
import platform
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import tenfold
from tenfold import frameworks, machine
from tenfold.machine import Machine, installed
from tenfold.machine.host import host

ALWAYS = ("tenfold", "numpy", "cloudpickle")
"""Packages whose version must be the same everywhere: they read what the others have written."""


@dataclass(frozen=True, slots=True)
class Facts:
    """About one process of a cluster."""

    host: str
    """The machine that it is on: processes with the same one can open each other's memory."""
    hostname: str
    """What people call that machine."""
    python: str
    """Its version."""
    versions: dict[str, str]
    """Installed packages that matter, by name."""
    machine: Machine
    """What there is."""


def look() -> Facts:
    """About this process."""
    return Facts(host(), socket.gethostname(), platform.python_version(), dict(_versions()), machine.look())


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"tenfold": tenfold.__version__}
    packages = [name for member in frameworks.every().values() for name in member.distributions]
    for name in (*ALWAYS[1:], *packages):
        found = installed.version(name)
        if found is not None:
            versions[name] = found
    return versions


def differences(here: Facts, there: Facts, members: Iterable[str]) -> list[str]:
    """What keeps a node from doing this process's work, in words; `members` are the frameworks that it uses."""
    faults = []
    ours, theirs = (".".join(facts.python.split(".")[:2]) for facts in (here, there))
    if ours != theirs:
        faults.append(f"Python {there.python} there, {here.python} here")
    packages = [(name,) for name in ALWAYS] + [frameworks.every()[member].distributions for member in members]
    for names in dict.fromkeys(packages):  # of several that provide the same (tensorflow, tensorflow-cpu) any will do
        theirs, ours = (_version(facts, names) for facts in (there, here))
        if theirs != ours:
            faults.append(f"{names[0]} {theirs} there, {ours} here")
    return faults


def _version(facts: Facts, names: Iterable[str]) -> str:
    return next((facts.versions[name] for name in names if name in facts.versions), "not installed")
