"""In a worker: whether a model that each worker holds whole has room in a seat, before it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenfold.errors import DoesNotFit
from tenfold.machine import Machine
from tenfold.plan.needs import readable
from tenfold.plan.seats import Seat
from tenfold.training.port import Learner

COPIES = 4  # of every number: the weight, its gradient, the sum of all workers' gradients, and this worker's copy of it
SURE = 2  # of these, what each worker has for itself on any device: the weight and its gradient
BYTES = 4  # of float32
ONE = ("adagrad", "rmsprop", "lion", "rprop")
"""Optimizers that remember one number for each parameter; most others two."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker has."""

    memory: int
    """Bytes."""
    told: str
    """Where that comes from, in words."""
    copies: int = SURE
    """Of every number that are counted: where nobody has said how much there is, only what is sure."""


def of(seat: Seat, machine: Machine, beside: int) -> Room:
    """What was asked for; else that of the GPUs of a seat; else a share of the machine's for so many workers on it."""
    if seat.memory is not None:
        return Room(seat.memory, f"memory={readable(seat.memory)}", COPIES)
    held = {gpu.address: gpu.share for gpu in seat.gpus}
    found = [gpu.memory * held[gpu.address] for gpu in machine.gpus if gpu.address in held]
    if found:
        most = int(max(found))  # a copy of the model is on one of them
        return Room(most, f"{readable(most)} on a GPU")
    most = machine.memory // beside
    return Room(most, f"{readable(machine.memory)} on the machine, for {beside} worker{'s' if beside > 1 else ''}")


def check(learner: Learner, room: Room) -> None:
    """Refuse a model that cannot fit, with the numbers."""
    remembered = slots(learner.optimizer)
    needed = BYTES * learner.weights_size * (room.copies + remembered)
    if needed > room.memory:
        raise DoesNotFit(
            f"{room.told}: the model has {learner.weights_size:,} parameters, and each worker would hold "
            f"all of them, their gradients and {remembered} numbers of the optimizer's for each: about "
            f'{readable(needed)}. Give more memory, or train with how="sharded", where each worker holds a part'
        )


def slots(optimizer: Any) -> int:
    """How many numbers an optimizer remembers for each parameter."""
    name = type(optimizer).__name__.lower()
    if "sgd" in name:
        groups = getattr(optimizer, "param_groups", ())
        return int(bool(getattr(optimizer, "momentum", 0)) or any(group.get("momentum") for group in groups))
    return 1 if name in ONE else 2
