"""One training, as the caller wants it: what travels to every worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenfold.training.wires import Ticket

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """How often the state is written: by steps, by seconds, whichever is given."""

    steps: int | None = None
    seconds: float | None = None


class Pacer:
    """When the next checkpoint is due."""

    def __init__(self, often: Checkpointing | None, step: int = 0) -> None:
        self._often = often
        self._step = step
        self._time = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether enough steps or seconds have gone by; then it counts anew."""
        often = self._often
        by_steps = often is not None and often.steps is not None and step - self._step >= often.steps
        by_time = often is not None and often.seconds is not None and time.monotonic() - self._time >= often.seconds
        if by_steps or by_time:
            self._step, self._time = step, time.monotonic()
        return by_steps or by_time


@dataclass(frozen=True, slots=True)
class Terms:
    """What all workers know."""

    fit: Fit
    """The model, its data, how long."""
    params: Mapping[str, Any]
    """What it is built with, the seed included."""
    ticket: Ticket
    """How the workers find each other."""
    how: str
    """The strategy."""
    checkpointing: Checkpointing | None
    """None writes none."""
    accumulate: int = 1
    """Pieces that a worker's share of a batch is computed in."""
    clip: float | None = None
    """The largest norm of the gradient."""
    staleness: int | None = None
    """Steps that one worker may be ahead of another; None for any number."""
    average_every: int | None = None
    """Steps after which weights are averaged; None where each step is added to them."""
    chosen: bool = False
    """The number of workers is found by measuring: they time their first steps, and tell the caller."""
    precision: str | None = None
    """Type that a module of PyTorch computes in, where it may; None for that of its weights."""
    devices: int | None = None
    """Of each worker's process, among which it divides its batches; None for its GPUs, or one."""
    exchange: str | None = None
    """How vectors are added up: "ring", "gloo" or "nccl"; None where the workers choose."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """How many workers there are on each machine, which share its memory."""
