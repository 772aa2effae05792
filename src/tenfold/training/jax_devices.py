"""JAX with several devices in one process: its GPUs, or for want of them the machine's cores. Before JAX starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from tenfold.errors import BadCall
from tenfold.training.groups import check_size
from tenfold.training.learner_keras import too_few

FLAGS = "XLA_FLAGS"
HOST_DEVICES = "--xla_force_host_platform_device_count"
"""Parts of the cores, where there are no GPUs; JAX's own setting for it came late, and not to all versions."""
THREADS = "NPROC"
"""How many XLA has: one for each core, and a device that waits for another one keeps its own.

On two cores, a net with convolutions waited for ever, for a thread that would compute a part of one.
"""


def begin(devices: int) -> list[Any]:
    """Start JAX with so many, before a model is built."""
    others = [flag for flag in os.environ.get(FLAGS, "").split() if not flag.startswith(HOST_DEVICES)]
    threads = 2 * devices + (os.cpu_count() or 1)
    with _set({FLAGS: " ".join([*others, f"{HOST_DEVICES}={devices}"]), THREADS: str(threads)}):
        there: list[Any] = jax.local_devices()
    if len(there) < devices:
        raise BadCall(too_few(devices, f"JAX has {len(there)}"))
    return there[:devices]


def everywhere(workers: int) -> list[Any]:
    """Those of all processes of a group; there are as many processes as workers."""
    check_size("JAX", jax.process_count(), workers)
    return list(jax.devices())


@contextlib.contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """While XLA starts, which reads them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
