"""What the workers of a `Parallel` must be like: calls that want the same can use the same workers.

Decides who gets which seat, as `tenfold.map` does, with joblib's rules for the number of workers and their threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenfold import machine
from tenfold.engines.local import LocalEngine
from tenfold.nursery.surroundings import Surroundings
from tenfold.plan.choose import Plan, choose
from tenfold.plan.needs import needs

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides whether kept workers fit a call."""

    jobs: int
    """How many calls run at once at most."""
    threads: int
    """What the thread pools of a worker are set to."""
    gpus: float | None
    """GPUs that each call holds; None leaves GPUs as the caller sees them."""
    variables: Mapping[str, str]
    """What joblib sets in a worker's environment."""
    initializer: Callable[..., object] | None
    """What a worker calls before its first call."""
    initargs: tuple[Any, ...]
    """The initializer's arguments."""
    files: str
    """The folder in which large arrays are put."""
    idle: float
    """Seconds without a call after which the workers end."""
    around: Surroundings
    """What a worker takes over from this process."""

    def fits(self, other: Shape) -> bool:
        try:
            return self == other
        except Exception:  # arguments that cannot be compared, such as arrays
            return False

    def worker_variables(self) -> dict[str, str | None]:
        """What a worker's environment says, over what its seat says."""
        visible = {name: self.around.environment.get(name) for name in _VISIBLE} if self.gpus is None else {}
        return {**self.variables, **visible}


def plan(jobs: int, threads: int, gpus: float | None) -> Plan:
    """Seats for as many jobs; fewer where there are not as many GPUs.

    They are pinned to no cores, like loky's workers: the caller's own threads compute beside them, and there may be
    more jobs than cores.
    """
    found = choose([machine.look()], needs(1, gpus or 0, None), LocalEngine.abilities, workers=jobs)
    return replace(found, seats=tuple(replace(seat, cpus=threads, cores=()) for seat in found.seats))


def held_by_gpus(jobs: int, gpus: float | None) -> int:
    """How many of `jobs` can run at once on the GPUs there are; refuses where not even one can."""
    return len(plan(jobs, 1, gpus).seats) if gpus else jobs
