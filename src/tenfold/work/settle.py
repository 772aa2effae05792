"""Settle a seat: what keeps a task within its cores, threads and GPUs, set before its framework starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from tenfold import frameworks
from tenfold.machine import SEAT_VARIABLE
from tenfold.plan.seats import Seat
from tenfold.work import heap


def variables(seat: Seat, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that a task on `seat` must see, over the caller's `environment`."""
    found = {SEAT_VARIABLE: seat.describe()}
    for member in frameworks.every().values():
        found |= member.variables(seat)
    # "-1" hides every GPU from CUDA and HIP; an empty list would be read as "not set" by some versions.
    visible = ",".join(gpu.address for gpu in seat.gpus)
    found |= {"CUDA_VISIBLE_DEVICES": visible or "-1", "HIP_VISIBLE_DEVICES": visible or "-1"}
    if visible:
        found["ZE_AFFINITY_MASK"] = visible
    if "CUDA_VISIBLE_DEVICES" not in environment:
        found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML counts in this order; CUDA's default is another
    return found


def settle(seat: Seat, environment: Mapping[str, str], *, loaded_threads: int | None = None) -> None:
    """Take the seat, for the rest of this process's life. For workers only: it writes `os.environ`.

    `loaded_threads` is the thread count with which the imported libraries were loaded, where that is known.
    """
    _replace_environment({**environment, **variables(seat, environment)})
    if seat.cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # a core that was taken away since the plan was made
            os.sched_setaffinity(0, seat.cores)
    heap.keep_freed()
    if seat.threads != loaded_threads:
        for member in frameworks.imported():
            member.settle(seat)


def _replace_environment(wanted: Mapping[str, str]) -> None:
    before = dict(os.environ)
    for name in before.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted.items() - before.items())


@contextlib.contextmanager
def lent(seat: Seat, environment: Mapping[str, str]) -> Iterator[None]:
    """Take the seat for a while, in a worker process that is somebody else's; everything is undone afterwards."""
    before = dict(os.environ)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    _replace_environment({**environment, **variables(seat, environment)})
    if seat.cores and cores is not None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, seat.cores)
    try:
        with borrowed(seat):
            yield
    finally:
        _replace_environment(before)
        if cores is not None:
            os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def borrowed(seat: Seat) -> Iterator[None]:
    """Keep to the seat's threads for a while, in a process that is not ours; everything is undone afterwards."""
    undo = [member.settle(seat) for member in frameworks.imported()]
    try:
        yield
    finally:
        for step in reversed(undo):
            if step is not None:
                step()
