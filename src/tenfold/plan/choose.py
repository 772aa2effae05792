"""The plan of one call: which seats, whether each task gets a process of its own, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenfold.errors import BadCall, DoesNotFit
from tenfold.machine import Machine
from tenfold.plan.needs import Needs, readable
from tenfold.plan.seats import Seat, cut_all


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do. Callers ask for these, never for an engine's name."""

    parallel: bool
    """Several tasks at once."""
    processes: bool
    """Tasks run outside the caller's process, so that functions, items and results are pickled."""
    stops: str
    """How a task that runs too long is stopped: "kill" (the caller's loop has it killed), "there" (it is killed where
    it runs), "alarm" (it stops itself; Python code only) or "never"."""
    limits_memory: bool
    """A task over its memory is stopped."""
    isolates: bool
    """A task can have a process of its own."""
    leases_gpus: bool
    """Two tasks never share a GPU beyond what they asked for."""
    seconds_per_batch: float
    """What it costs to send a batch of tasks and to get its results back; batches are sized by it."""
    gpus_are: str = ""
    """Where GPUs come from, in words, where that is not the machine itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who gets which seat, and how."""

    seats: tuple[Seat, ...]
    """As many tasks run at once."""
    isolate: bool
    """Each task gets a process of its own."""
    reasons: tuple[str, ...]
    """Why it is so, in words."""
    needs: Needs
    """What each task was given, for machines that join later."""
    workers: int | None
    """How many tasks at once at most, as asked."""

    def __str__(self) -> str:
        return "\n".join([f"{len(self.seats)} at a time: {'; '.join(map(str, self.seats))}", *self.reasons])


def choose(
    machines: Sequence[Machine],
    needs: Needs,
    abilities: Abilities,
    *,
    workers: int | None = None,
    isolate: bool | None = None,
    timeout: float | None = None,
    first_core: int = 0,
) -> Plan:
    """Make the plan, or refuse with everything that stands against it."""
    _refuse(needs, abilities, workers, isolate, timeout)
    try:
        seats = cut_all(machines, needs, workers if abilities.parallel else 1, first_core)
    except DoesNotFit as error:
        if not needs.gpus or not abilities.gpus_are:
            raise
        raise DoesNotFit(f"{error} GPUs are {abilities.gpus_are}") from error
    alone, why = _isolation(needs, abilities, isolate)
    return Plan(seats, alone, (*_explain(machines, needs, seats, workers, abilities), *why), needs, workers)


def odd(workers: object, isolate: object, timeout: object) -> list[str]:
    """What is wrong with these values whatever the engine and the machine are."""
    faults = []
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        faults.append(f"workers={workers!r}: expected a whole number above 0")
    if isolate is not None and not isinstance(isolate, bool):
        faults.append(f"isolate={isolate!r}: expected True, False or None")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        faults.append(f"timeout={timeout!r}: expected seconds above 0, or None")
    return faults


def _isolation(needs: Needs, abilities: Abilities, isolate: bool | None) -> tuple[bool, list[str]]:
    if isolate is not None:
        return isolate, ["a process of its own for each task, as asked"] if isolate else []
    if needs.gpus and abilities.isolates:
        # Frameworks give GPU memory back only when their process ends.
        return True, ["a process of its own for each task, because GPU memory is given back only at exit"]
    return False, []


def _refuse(
    needs: Needs, abilities: Abilities, workers: int | None, isolate: bool | None, timeout: float | None
) -> None:
    faults = odd(workers, isolate, timeout)
    lacking = [
        (isolate is True and not abilities.isolates, "isolate=True"),
        (needs.memory is not None and not abilities.limits_memory, f"memory={readable(needs.memory or 0)}"),
        (timeout is not None and abilities.stops == "never", f"timeout={timeout}"),
        (needs.gpus > 0 and not abilities.leases_gpus, f"gpus={needs.gpus:g}"),
    ]
    faults += [f'{what} cannot be kept by the engine in use; engine="local" can' for lacks, what in lacking if lacks]
    if faults:
        raise BadCall("; ".join(faults))


def _explain(
    machines: Sequence[Machine], needs: Needs, seats: tuple[Seat, ...], workers: int | None, abilities: Abilities
) -> list[str]:
    words = []
    by_cpus = len(cut_all(machines, Needs(needs.cpus)))
    if workers is not None and len(seats) > by_cpus:
        words.append(f"{len(seats)} workers share {sum(machine.cpus for machine in machines):g} cores, as asked")
    elif workers is None and abilities.parallel and len(seats) < by_cpus:
        words.append("fewer tasks than cores, because GPUs or memory allow no more")
    if any(machine.gpus for machine in machines) and not needs.gpus:
        words.append("GPUs are hidden from the tasks, because none was asked for: gpus=1 gives each task one")
    return words
