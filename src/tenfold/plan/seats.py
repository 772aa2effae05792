"""Seats: the machine divided into places to run, each for one task at a time.

All tasks of one call need the same, so the division is arithmetic: as many seats on each machine as its cores, GPUs
and memory all allow. An explicit number of workers may exceed the cores (the caller wants to oversubscribe) but never
the GPUs or the memory, because those fail instead of slowing down.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from tenfold.errors import DoesNotFit
from tenfold.machine import Gpu, Machine
from tenfold.plan.needs import Needs, readable

_ROUNDING = 1e-9  # 3 * (1 / 3) must fit in 1


@dataclass(frozen=True, slots=True)
class GpuShare:
    """A GPU, or a part of one."""

    address: str
    """What CUDA_VISIBLE_DEVICES calls it."""
    share: float
    """1.0 is all of it."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A place to run one task at a time."""

    index: int
    """Its number in the plan."""
    cpus: float
    """Cores' worth of time."""
    cores: tuple[int, ...]
    """Cores that it is pinned to; empty means not pinned."""
    gpus: tuple[GpuShare, ...] = ()
    """GPUs that it holds."""
    memory: int | None = None
    """Bytes that its task may use; None means not limited."""
    machine: str = ""
    """The machine of a cluster that it is on; empty for the caller's."""

    @property
    def threads(self) -> int:
        """The thread budget: what every thread pool in the worker is set to."""
        return max(1, int(self.cpus))

    @property
    def device(self) -> str:
        """What PyTorch calls the first device that the task sees."""
        return "cuda:0" if self.gpus else "cpu"

    def describe(self) -> str:
        """For the worker's environment, where a nested call finds out what it may divide."""
        shares = {gpu.address: gpu.share for gpu in self.gpus}
        return json.dumps({"cpus": self.cpus, "memory": self.memory, "gpus": shares})

    def __str__(self) -> str:
        words = [f"core {','.join(map(str, self.cores))}" if self.cores else f"{self.cpus:g} cpus"]
        words += [f"{gpu.share:g} of GPU {gpu.address}" if gpu.share < 1 else f"GPU {gpu.address}" for gpu in self.gpus]
        words += [readable(self.memory)] if self.memory else []
        words += [self.machine] if self.machine else []
        return f"seat {self.index} ({', '.join(words)})"


def cut_all(
    machines: Sequence[Machine], needs: Needs, workers: int | None = None, first_core: int = 0
) -> tuple[Seat, ...]:
    """Divide several machines; `workers` are spread over them. Those on which nothing fits are left out."""
    each = None if workers is None else -(-workers // len(machines))
    parts = []
    refused = []
    for machine in machines:
        try:
            parts.append(cut(machine, needs, each, first_core))
        except DoesNotFit as error:
            refused.append(error)
    if not parts:
        raise refused[-1]
    # First one on each machine, then two, so that a smaller number of workers is spread.
    spread = [seat for seat in chain.from_iterable(zip_longest(*parts)) if seat is not None]
    return tuple(replace(seat, index=n) for n, seat in enumerate(spread[:workers]))


def cut(machine: Machine, needs: Needs, workers: int | None = None, first_core: int = 0) -> tuple[Seat, ...]:
    """Divide `machine` into seats for `needs`; refuse with the numbers where not even one fits.

    `first_core` turns the order of the cores, so that several scripts on one machine that each use a few
    workers are not all pinned to core 0.
    """
    by_cpus = _times(machine.cpus, needs.cpus)
    by_memory = machine.memory // needs.memory if needs.memory else None
    devices = _devices(machine.gpus, needs.gpus) if needs.gpus else None
    _refuse(machine, needs, by_cpus, by_memory, devices)
    hard = [limit for limit in (by_memory, len(devices) if devices is not None else None) if limit is not None]
    count = min([workers if workers is not None else by_cpus, *hard])
    return tuple(
        Seat(
            index=n,
            cpus=needs.cpus,
            cores=_cores(machine, needs, n, first_core),
            gpus=devices[n] if devices is not None else (),
            memory=needs.memory,
            machine=machine.name,
        )
        for n in range(count)
    )


def _times(available: float, needed: float) -> int:
    """What needs nothing, because it mostly waits, has room always."""
    return int(available / needed + _ROUNDING) if needed else sys.maxsize


def _devices(gpus: tuple[Gpu, ...], needed: float) -> list[tuple[GpuShare, ...]]:
    """The GPU shares of every possible seat. Seats of one GPU are spread: first one task on each, then two."""
    if needed >= 1:
        whole = [GpuShare(gpu.address, 1.0) for gpu in gpus if gpu.share >= 1]
        size = int(needed)
        return [tuple(whole[n : n + size]) for n in range(0, len(whole) - size + 1, size)]
    rounds = [_times(gpu.share, needed) for gpu in gpus]
    return [
        (GpuShare(gpu.address, needed),)
        for turn in range(max(rounds, default=0))
        for gpu, room in zip(gpus, rounds, strict=True)
        if turn < room
    ]


def _cores(machine: Machine, needs: Needs, seat: int, first: int) -> tuple[int, ...]:
    if not needs.cpus:
        return ()
    available = machine.cores
    width = max(1, int(needs.cpus))
    if width >= len(available):
        return available
    start = first + seat * width
    return tuple(available[(start + n) % len(available)] for n in range(width))


def _refuse(
    machine: Machine, needs: Needs, by_cpus: int, by_memory: int | None, devices: list[tuple[GpuShare, ...]] | None
) -> None:
    faults = []
    if by_cpus < 1:
        faults.append(f"cpus={needs.cpus:g}, and {machine.cpus:g} may be used here")
    if by_memory is not None and by_memory < 1:
        faults.append(f"memory={readable(needs.memory or 0)}, and there are {readable(machine.memory)}")
    if devices is not None and not devices:
        held = sum(gpu.share for gpu in machine.gpus)
        faults.append(f"gpus={needs.gpus:g}, and {held:g} are visible here ('tenfold doctor' shows what was found)")
    if faults:
        where = f" on {machine.name}" if machine.name else ""
        raise DoesNotFit(f"one task needs {'; '.join(faults)}{where}. Ask for less, or run it where there is more.")
