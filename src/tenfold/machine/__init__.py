"""WHAT IS HERE: the cores, memory and GPUs that this process may use. Facts only, no decisions.

`look()` is called by the plan and by `tenfold.here()`. Inside a task it describes the task's seat, not the
whole machine, so that a nested `tenfold.map` divides what its task was given and nothing more.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace

from tenfold.machine import cores, gpus, memory
from tenfold.machine.gpus import Gpu

__all__ = ["Gpu", "Machine", "SEAT_VARIABLE", "look"]

SEAT_VARIABLE = "TENFOLD_SEAT"


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process may use."""

    cores: tuple[int, ...]
    """Numbers of the cores we may be pinned to; empty where pinning is not possible or not wise."""
    cpus: float
    """How many cores' worth of time we may use: the affinity mask, or the cgroup quota where that is less."""
    memory: int
    """Bytes we may use: the machine's, or the cgroup limit where that is less."""
    gpus: tuple[Gpu, ...]
    """The GPUs that are visible to this process."""
    name: str = ""
    """What a cluster calls it; empty for the machine that the caller is on."""


def look() -> Machine:
    """Look at the machine now. Takes about a millisecond; nothing is cached, because limits change."""
    mask = cores.affinity()
    quota = cores.quota()
    cpus = float(len(mask)) if quota is None else min(float(len(mask)), max(1.0, quota))
    # Under a quota, every container of a machine would be pinned to the same first cores: do not pin.
    pinnable = mask if quota is None or quota >= len(mask) else ()
    here = Machine(cores=pinnable, cpus=cpus, memory=memory.limit(), gpus=gpus.find())
    seat = os.environ.get(SEAT_VARIABLE)
    return within(here, json.loads(seat)) if seat else here


def current_folder() -> str:
    """The current folder of this process; "/" where somebody has removed it under us."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def within(machine: Machine, seat: dict[str, object]) -> Machine:
    """The part of `machine` that a task's seat holds, as `tenfold.plan.seats.Seat.describe` wrote it."""
    shares: dict[str, float] = seat["gpus"]  # type: ignore[assignment]
    limit = seat["memory"]
    return Machine(
        cores=machine.cores,
        cpus=min(machine.cpus, float(seat["cpus"])),  # type: ignore[arg-type]
        memory=min(machine.memory, int(limit)) if isinstance(limit, int) else machine.memory,
        gpus=tuple(replace(gpu, share=shares[gpu.address]) for gpu in machine.gpus if gpu.address in shares),
    )
