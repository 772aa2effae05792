"""Groups that the workers of a launch form, in the way of each framework: one file for each.

A file has a class `Made`, a `Group`. Frameworks are imported only when a group is used.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
from collections.abc import Sequence
from typing import Protocol

from tenfold.errors import GroupDiffers
from tenfold.training.gang import Gang

NAMES = ("torch", "jax")
"""Those that are formed before the function is called; `variables` lets other libraries form theirs."""


class Group(Protocol):
    """One worker's part of a group. Methods are called in this order, once each, in the worker's main thread."""

    def offer(self, rank: int, count: int) -> int:
        """The port by which the others will find this worker, chosen now; 0 where they need not."""

    def join(self, gang: Gang) -> None:
        """Form the group with all others, and make sure that all are in it."""

    def leave(self) -> None:
        """Every worker's function has returned: undo it. Not called where one has failed, since that ends all."""


def made(names: Sequence[str]) -> dict[str, Group]:
    """What a function needs that uses these frameworks."""
    wanted = [name for name in NAMES if name in names or name == _keras_runs_on(names)]
    return {name: importlib.import_module(f"{__name__}.{name}").Made() for name in ("variables", *wanted)}


def _keras_runs_on(names: Sequence[str]) -> str:
    if "keras" not in names:
        return ""
    with contextlib.suppress(ImportError):  # the function's own import will say it better
        import keras

        return str(keras.backend.backend())
    return ""


def check_size(what: str, found: int, wanted: int) -> None:
    """A group that is too small would train models that know nothing of each other, and nobody would notice."""
    if found != wanted:
        raise GroupDiffers(f"the group of {what} has {found} members, and {wanted} workers were started")


def free_port() -> socket.socket:
    """A socket that keeps a free port until whoever is to listen there is about to."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("", 0))
    return found
