"""`tenfold.warm`: start the workers' imports now, while the script does something else."""

from __future__ import annotations

from tenfold import frameworks
from tenfold.errors import BadCall
from tenfold.fuse import fit
from tenfold.machine.installed import missing, version
from tenfold.nursery import client

FUSE = "fuse"


def warm(*names: str) -> None:
    """Have the nursery import these frameworks; returns at once. With no name: every one that is installed.

    At the top of a script, before its own imports, it hides the seconds that a framework takes to import. "fuse" is for
    a script that maps a `Fit` of Keras models: its workers have Keras on JAX.
    """
    if FUSE in names:
        if version("jax") is None:
            raise missing("jax", FUSE)
        client.get(tuple(fit.BACKEND.items())).preload(fit.MODULES)
    others = tuple(name for name in names if name != FUSE)
    if others or not names:
        client.get().preload(modules(others))


def modules(names: tuple[str, ...]) -> list[str]:
    """What a nursery imports for these frameworks; refuses unknown and missing ones together."""
    members = frameworks.every()
    faults = [f"{name!r} is not one of {', '.join(members)}" for name in names if name not in members]
    if faults:
        raise BadCall("; ".join(faults))
    for name in names:
        if version(*members[name].distributions) is None:
            raise missing(name, members[name].extra)
    wanted = names or tuple(name for name, member in members.items() if version(*member.distributions))
    return [module for name in wanted for module in members[name].modules]
