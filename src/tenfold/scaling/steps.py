"""How long a step of data-parallel training takes: compute, all-reduce, what overlaps, and the input that all wait for.

    a worker's compute  ████████████░░░░          fixed + per_sample x its share of the batch
    all-reduce                  ████████          inside each machine, then between them, 2(n-1)/n of the gradient
    input               ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒        a ceiling: a step is never shorter than its samples take to arrive

Numbers may be arrays, so that all replicates of a bootstrap are one call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy

from tenfold.scaling.estimate import Array

Reduce = Literal["ring", "tree"]
"""How gradients are added up: in 2(n-1) rounds around a ring, or up and down a tree in 2 log2(n). Both send as much."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a step is made of. Each number is a float, or an array of one for each replicate, in a column."""

    per_sample: Any
    """Seconds of compute for a sample."""
    fixed: Any = 0.0
    """Seconds of compute for a step, however small the batch."""
    gradient: Any = 0.0
    """Bytes that all workers add up."""
    latency: Any = 0.0
    """Seconds for each round inside a machine."""
    bandwidth: Any = math.inf
    """Bytes a second that a worker sends inside a machine."""
    latency_between: Any = 0.0
    """Seconds for each round between machines."""
    bandwidth_between: Any = math.inf
    """Bytes a second that a machine sends to another."""
    workers_per_machine: int | None = None
    """How many workers share a machine; None where all do."""
    overlap: Any = 0.0
    """Share of the shorter one of compute and all-reduce that goes on during the other."""
    input_rate: Any = math.inf
    """Samples a second that the input gives to all workers together."""
    reduce: Reduce = "ring"
    """How gradients are added up."""

    def compute(self, batch: Any) -> Any:
        """Seconds for a worker's own samples."""
        return self.fixed + self.per_sample * batch

    def communication(self, workers: Any) -> Any:
        """Seconds for the whole all-reduce, overlapped or not."""
        counts = numpy.asarray(workers, dtype=float)
        inside, machines = self.layout(counts)
        own = self._all_reduce(inside, self.latency, self.bandwidth)
        return own + self._all_reduce(machines, self.latency_between, self.bandwidth_between)

    def _all_reduce(self, count: Array, latency: Any, bandwidth: Any) -> Any:
        return latency * rounds(count, self.reduce) + self.gradient * volume(count) / bandwidth

    def layout(self, workers: Array) -> tuple[Array, Array]:
        """Workers on a machine, and machines."""
        if self.workers_per_machine is None:
            return workers, numpy.ones_like(workers)
        return numpy.minimum(workers, self.workers_per_machine), numpy.ceil(workers / self.workers_per_machine)

    def joined(self, compute: Any, communication: Any) -> Any:
        """Seconds for both, of which a part is done at the same time."""
        return compute + communication - self.overlap * numpy.minimum(compute, communication)

    def feeding(self, workers: Any, batch: Any) -> Any:
        """Seconds in which the samples of one step arrive."""
        return numpy.asarray(workers, dtype=float) * batch / self.input_rate

    def seconds(self, workers: Any, batch: Any) -> Any:
        """Seconds for one step of `workers`, each with `batch` samples."""
        together = self.joined(self.compute(numpy.asarray(batch, dtype=float)), self.communication(workers))
        return numpy.maximum(together, self.feeding(workers, batch))

    def faster(self, speed: float) -> Step:
        """The same on devices that compute so many times as fast."""
        return replace(self, per_sample=self.per_sample / speed, fixed=self.fixed / speed)


def rounds(count: Array, reduce: Reduce) -> Array:
    """How often one waits for another's message."""
    return 2 * (count - 1) if reduce == "ring" else 2 * numpy.ceil(numpy.log2(count))


def volume(count: Array) -> Array:
    """How often the gradient is sent by each, in all."""
    return 2 * (count - 1) / count
