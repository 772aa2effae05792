"""What a long run meets: slow workers, failures, checkpoints, servers, microbatches."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy

from tenfold.scaling.estimate import Array

Scaling = Literal["weak", "strong"]
_POINTS = 400  # of the distribution of the slowest; its mean is then exact to a thousandth for spreads that occur


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of one run, beside what a step is made of."""

    batch: float
    """Samples of a worker in a step ("weak"), or of all of them together ("strong")."""
    scaling: Scaling = "weak"
    """Whether a step has more samples with more workers."""
    spread: float = 0.0
    """Of a worker's compute time from step to step: the standard deviation of its logarithm."""
    failures: float = 0.0
    """Of one worker, each hour."""
    restart: float = 0.0
    """Seconds from a failure until steps go on."""
    checkpoint: float = 0.0
    """Seconds that writing one takes, in which no step is made."""
    checkpoint_every: int | None = None
    """Steps between two; None for as many as cost least."""
    servers: int = 1
    """Parameter servers, each with a link of its own."""
    microbatches: int = 1
    """Into which a pipeline divides a batch."""
    activations: float = 0.0
    """Bytes that a pipeline's stage sends to the next, for a sample."""

    def local(self, workers: Any) -> Any:
        """Samples of each worker in a step."""
        counts = numpy.asarray(workers, dtype=float)
        return self.batch / counts if self.scaling == "strong" else numpy.full_like(counts, self.batch)

    def failures_per_second(self, workers: Any) -> Any:
        """Of all workers together."""
        return numpy.asarray(workers, dtype=float) * self.failures / 3600


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Where the seconds of a step go, on average; they add up to `seconds`. A number of each for every worker count."""

    compute: Any
    """A worker's own work."""
    communication: Any
    """Gradients or activations under way while nothing is computed."""
    waiting: Any
    """For slower workers, for a server that is busy, for a pipeline to fill and drain."""
    input: Any
    """For samples."""
    faults: Any
    """Restarts, work that is done again, checkpoints."""
    samples: Any
    """Of all workers, in a step."""

    @property
    def seconds(self) -> Any:
        return self.compute + self.communication + self.waiting + self.input + self.faults

    @property
    def throughput(self) -> Any:
        """Samples a second."""
        return self.samples / self.seconds


def slowest(workers: Array, spread: float) -> Array:
    """By how much the slowest of so many is slower than all are on average."""
    found = [_slowest(int(count), spread) for count in workers.reshape(-1)]
    return numpy.array(found).reshape(workers.shape)


@functools.lru_cache(maxsize=4096)
def _slowest(count: int, spread: float) -> float:
    if spread == 0 or count == 1:
        return 1.0
    normal = NormalDist()
    # The slowest is below a time with the probability that each is, to the power of their count.
    shares = ((place + 0.5) / _POINTS for place in range(_POINTS))
    times = (math.exp(spread * normal.inv_cdf(share ** (1 / count)) - spread**2 / 2) for share in shares)
    return sum(times) / _POINTS


def lognormal(random: numpy.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """Factors of compute time, 1 on average. Single precision is enough, and takes half the time."""
    if spread == 0:
        return numpy.ones(shape, dtype=numpy.float32)
    drawn = random.standard_normal(shape, dtype=numpy.float32)
    drawn *= spread
    drawn -= spread**2 / 2
    found: Array = numpy.exp(drawn, out=drawn)
    return found
