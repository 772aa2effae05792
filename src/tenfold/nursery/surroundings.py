"""What a worker takes over from the process that asked for it: environment, folder, import path, arguments."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from tenfold import machine

SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """As the caller has them, unless somebody says otherwise."""

    environment: dict[str, str]
    """The variables that tasks see, before their seat changes some of them."""
    folder: str
    """The current folder."""
    path: list[str]
    """Where modules are looked for."""
    arguments: list[str]
    """`sys.argv`."""
    scratch: tuple[str, ...] = ()
    """Folders that go with the last worker."""
    variables: tuple[tuple[str, str], ...] = ()
    """What the call itself sets in the environment, before anything is imported: its nursery is another one."""
    nursery: str | None = None
    """Which nursery is meant: None for that of this process, SHARED for the one that the processes of this machine
    share, or the socket of another process's."""


def surroundings(variables: tuple[tuple[str, str], ...] = ()) -> Surroundings:
    """Those of this process, now, with `variables` set."""
    environment = {**os.environ, **dict(variables)}
    return Surroundings(environment, machine.current_folder(), list(sys.path), list(sys.argv), variables=variables)
