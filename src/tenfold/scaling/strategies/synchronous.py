"""Synchronous all-reduce: the slowest worker decides, and a failure of one is a failure of all."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tenfold.scaling.conditions import Conditions, Split, lognormal, slowest
from tenfold.scaling.estimate import Array
from tenfold.scaling.faults import per_step, timeline
from tenfold.scaling.steps import Step

AHEAD = 2
"""Steps for which samples wait ready, at most."""
_AT_ONCE = 4_000_000  # random numbers in memory


def expected(step: Step, conditions: Conditions, workers: Any) -> Split:
    """Where the seconds of a step go."""
    counts = numpy.asarray(workers, dtype=float)
    batch = conditions.local(counts)
    compute, communication = step.compute(batch), step.communication(counts)
    slow = compute * slowest(counts, conditions.spread)
    alone, together = step.joined(compute, communication), step.joined(slow, communication)
    fed = numpy.maximum(together, step.feeding(counts, batch))
    total = per_step(fed, conditions, counts)
    return Split(compute, alone - compute, together - alone, fed - together, total - fed, counts * batch)


def simulated(step: Step, conditions: Conditions, workers: int, steps: int, random: numpy.random.Generator) -> float:
    """Seconds of a step."""
    batch = float(conditions.local(workers))
    slow = float(step.compute(batch)) * _slowest(conditions, workers, steps + AHEAD, random)
    together = step.joined(slow, float(step.communication(workers)))
    return timeline(_fed(together, float(step.feeding(workers, batch))), conditions, workers, random)


def _slowest(conditions: Conditions, workers: int, steps: int, random: numpy.random.Generator) -> Array:
    """In each step, the factor of the worker that takes longest."""
    if conditions.spread == 0:
        return numpy.ones(steps)
    rows = max(1, _AT_ONCE // workers)
    found = [
        lognormal(random, (min(rows, steps - first), workers), conditions.spread).max(axis=1)
        for first in range(0, steps, rows)
    ]
    return numpy.concatenate(found).astype(float)


def _fed(together: Array, feeding: float) -> Array:
    """Durations of steps that wait for their samples, of which a few steps' are ready ahead; without the first ones."""
    starts, ends = [-math.inf] * AHEAD, [0.0]
    ready = 0.0
    for place, duration in enumerate(together):
        ready = max(ready, starts[place]) + feeding  # room for these was made when that step began
        starts.append(max(ends[-1], ready))
        ends.append(starts[-1] + float(duration))
    return numpy.diff(ends)[AHEAD:]
