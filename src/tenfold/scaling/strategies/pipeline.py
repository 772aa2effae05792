"""Pipelines: each worker holds a part of the layers, and microbatches go through all of them, forward and back.

worker 0  1 2 3 4 . . . . . . 4 4 3 3 2 2 1 1        a third of the compute is forward, two thirds are back
worker 1  . 1 2 3 4 . . . . 4 4 3 3 2 2 1 1 . .      what is empty is the bubble
worker 2  . . 1 2 3 4 4 4 3 3 2 2 1 1 . . . . .
"""

from __future__ import annotations

from typing import Any

import numpy

from tenfold.scaling.conditions import Conditions, Split, lognormal
from tenfold.scaling.estimate import Array
from tenfold.scaling.faults import per_step, timeline
from tenfold.scaling.steps import Step

FORWARD = 1 / 3
"""Of the compute; the way back takes twice as long, for the gradient of the weights and that of the inputs."""
_NUMBERS = 10_000_000  # random numbers in all


def expected(step: Step, conditions: Conditions, workers: Any) -> Split:
    """Where the seconds of a step go. Chance is left out here: the simulation has it."""
    counts = numpy.asarray(workers, dtype=float)
    many = conditions.microbatches
    compute = _stage(step, conditions, counts)
    hops, longest = _hops(step, conditions, counts)
    both = 0.0
    for share in (FORWARD, 1 - FORWARD):
        own = share * compute
        both = both + counts * own + hops + (many - 1) * numpy.maximum(own, longest)
    busy, filling = many * compute, (counts - 1) * compute
    fed = numpy.maximum(both, conditions.batch / step.input_rate)
    total = per_step(fed, conditions, counts)
    return Split(busy, both - busy - filling, filling, fed - both, total - fed, conditions.batch + 0 * counts)


def simulated(step: Step, conditions: Conditions, workers: int, steps: int, random: numpy.random.Generator) -> float:
    """Seconds of a step: stage after stage, each microbatch when the one before it and the last stage are done."""
    many = conditions.microbatches
    rows = max(3, min(steps, _NUMBERS // (workers * many))) if conditions.spread else 1
    compute = float(_stage(step, conditions, numpy.array(float(workers))))
    delays = _delays(step, conditions, workers)
    done = numpy.zeros((rows, many))
    for share, hops in ((FORWARD, delays), (1 - FORWARD, delays[::-1])):
        # The way back begins when all microbatches have come to the last stage.
        done = numpy.repeat(done.max(axis=1, keepdims=True), many, axis=1)
        for stage in range(workers):
            noise = lognormal(random, (rows, many), conditions.spread).astype(float)
            done = _one_by_one(done, share * compute * noise)
            if stage < workers - 1 and hops[stage]:
                done = _one_by_one(done, numpy.full((rows, many), hops[stage]))
    durations = numpy.maximum(done.max(axis=1), conditions.batch / float(step.input_rate))
    return timeline(durations, conditions, workers, random)


def _one_by_one(arrivals: Array, durations: Array) -> Array:
    """When each is done by one that takes them in order: a recurrence, written as a running maximum."""
    ends = numpy.cumsum(durations, axis=1)
    found: Array = ends + numpy.maximum.accumulate(arrivals - (ends - durations), axis=1)
    return found


def _stage(step: Step, conditions: Conditions, counts: Any) -> Any:
    """Seconds of one worker for a microbatch, forward and back."""
    return step.compute(conditions.batch / conditions.microbatches) / counts


def _hop(step: Step, conditions: Conditions) -> tuple[Any, Any]:
    """Seconds from a stage to the next, on the same machine and on another."""
    size = conditions.activations * conditions.batch / conditions.microbatches
    return step.latency + size / step.bandwidth, step.latency_between + size / step.bandwidth_between


def _hops(step: Step, conditions: Conditions, counts: Any) -> tuple[Any, Any]:
    """Seconds of all hops of one way, and of the longest."""
    near, far = _hop(step, conditions)
    _, machines = step.layout(counts)
    longest = numpy.maximum(numpy.where(counts > machines, near, 0.0), numpy.where(machines > 1, far, 0.0))
    return (counts - machines) * near + (machines - 1) * far, longest


def _delays(step: Step, conditions: Conditions, workers: int) -> Array:
    near, far = (float(value) for value in _hop(step, conditions))
    places = numpy.arange(1, workers)
    if step.workers_per_machine is None:
        return numpy.full(places.shape, near)
    return numpy.where(places % step.workers_per_machine == 0, far, near)
