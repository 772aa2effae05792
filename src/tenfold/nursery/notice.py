"""Starts a nursery while the caller is still importing: `import tenfold`, then `import tensorflow`.

The framework's import takes seconds in this process; the nursery's takes place at the same time on another core. A
script that never calls a verb has paid one idle process for it, which dies with the script; `TENFOLD_NOTICE=0`
switches it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable

from tenfold.work.arrivals import Arrivals

VARIABLE = "TENFOLD_NOTICE"
_NAMES = ("tensorflow", "torch", "jax", "keras", "sklearn", "skimage", "PIL")
"""Listed here because reading the members would cost `import tenfold` their imports; a test compares."""
_OF_GROUPS = ("tensorflow", "jax", "keras", "sklearn")
"""Not announced to a script that has workers for groups of Keras models already (`tenfold.warm("fuse")`): those have
Keras on JAX, and a second nursery that imports TensorFlow meanwhile would only take a core from the script."""


def watch(also: Callable[[], None]) -> None:
    """Called by `import tenfold`; `also` is called when the nursery has been told."""

    def comes(name: str) -> None:
        if "tenfold.nursery.process" in sys.modules:
            return  # this is the nursery itself
        _framework_comes(name)
        with contextlib.suppress(Exception):  # an import must never fail because of this; a call will say what is wrong
            also()

    if is_callers_process():
        Arrivals(_NAMES, before=comes).watch()


def is_callers_process() -> bool:
    """Not a worker of ours, nor of anybody else: those import frameworks because they were told to."""
    from tenfold.machine import SEAT_VARIABLE

    multiprocessing = sys.modules.get("multiprocessing.process")
    is_main = multiprocessing is None or multiprocessing.current_process().name == "MainProcess"
    asked_not_to = os.environ.get(VARIABLE) == "0" or os.environ.get("TENFOLD_START") == "spawn"
    return is_main and not asked_not_to and SEAT_VARIABLE not in os.environ and sys.platform == "linux"


def _framework_comes(name: str) -> None:
    from tenfold.nursery import client, used

    if name not in _OF_GROUPS or not client.has_special():
        tell(used.preloads(name))


def tell(modules: Iterable[str]) -> None:
    """Have the nursery import `modules`, in a process that may have one and was not asked to do without."""
    if "tenfold.nursery.process" in sys.modules or not is_callers_process():
        return  # the first means that this is the nursery itself
    from tenfold.nursery import client

    with contextlib.suppress(Exception):  # an import must never fail because of this; map will say what is wrong
        client.get().preload(modules)
