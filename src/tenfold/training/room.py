"""In a worker: whether a model that each worker holds whole has room in a seat, before it is trained."""

from __future__ import annotations

from typing import Any

from tenfold.errors import DoesNotFit
from tenfold.plan.needs import readable
from tenfold.training.port import Learner

COPIES = 4  # of every number: the weight, its gradient, the sum of all workers' gradients, and this worker's copy of it
BYTES = 4  # of float32
ONE = ("adagrad", "rmsprop", "lion", "rprop")
"""Optimizers that remember one number for each parameter; most others two."""


def check(learner: Learner, memory: int | None) -> None:
    """Refuse a model that cannot fit, with the numbers."""
    if memory is None:
        return
    remembered = slots(learner.optimizer)
    needed = BYTES * learner.weights_size * (COPIES + remembered)
    if needed > memory:
        raise DoesNotFit(
            f"memory={readable(memory)}: the model has {learner.weights_size:,} parameters, and each worker would hold "
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
