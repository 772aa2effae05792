"""JAX with several devices in one process: its GPUs, or for want of them the machine's cores. Before JAX starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax

from tenfold.errors import BadCall
from tenfold.training.learner_keras import too_few

THREADS = "NPROC"
"""A variable that XLA reads when it starts."""


def begin(devices: int) -> list[Any]:
    """Start JAX with so many, before a model is built."""
    with contextlib.suppress(AttributeError, RuntimeError):  # an old JAX, or one that has started
        jax.config.update("jax_num_cpu_devices", devices)
    with enough_threads(devices):
        there: list[Any] = jax.local_devices()
    if len(there) < devices:
        raise BadCall(too_few(devices, f"JAX has {len(there)}"))
    return there[:devices]


@contextlib.contextmanager
def enough_threads(devices: int) -> Iterator[None]:
    """While XLA starts: it has a thread for each core, and a device that waits for another one keeps its thread.

    On two cores, a net with convolutions waited for ever, for a thread that would compute a part of one.
    """
    before = os.environ.get(THREADS)
    os.environ[THREADS] = str(2 * devices + (os.cpu_count() or 1))
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before
