"""Parameter servers: each worker goes at its own pace, and waits only where the servers are busy.

    worker: compute ─> gradient to the servers ─> weights back ─> compute ...
                              └── servers take one after the other; each holds a part of the model

A gradient is divided among all servers, so that they work as one with the links of all of them.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy

from tenfold.scaling.conditions import Conditions, Split, lognormal
from tenfold.scaling.estimate import Array
from tenfold.scaling.steps import Step

_EVENTS = 200_000  # updates that are gone through, about; a second
_MOMENTS = 10_000  # at which it is asked how many workers are up
_FEW = 9
_TURNS = 8  # of each worker at the least; the first ones still show that all began at once


def expected(step: Step, conditions: Conditions, workers: Any) -> Split:
    """Where the seconds between two updates of a worker go. One that fails costs only itself."""
    counts = numpy.asarray(workers, dtype=float)
    batch = conditions.local(counts)
    compute = step.compute(batch) + 0 * counts
    sending, serving = _links(step, conditions)
    cycle = compute + sending
    down = cycle * _failures_for_each_up(conditions)
    queued = numpy.maximum(cycle + down, counts * serving)
    fed = numpy.maximum(queued, step.feeding(counts, batch))
    return Split(compute, sending, queued - cycle - down, fed - queued, down, counts * batch)


def simulated(step: Step, conditions: Conditions, workers: int, steps: int, random: numpy.random.Generator) -> float:
    """Seconds between two updates of a worker, from the queue at the servers.

    Failures are much rarer than updates. So the queue is gone through with as many workers as are up at a time.
    """
    up = random.binomial(workers, 1 / (1 + _failures_for_each_up(conditions)), _MOMENTS)
    batch = float(conditions.local(workers))
    moments = _few(up)
    rate = 0.0
    for count, share in moments:
        if count:
            events = _EVENTS // len(moments)
            rate += (
                share * count / _queue(step, conditions, batch, count, max(_TURNS, min(steps, events // count)), random)
            )
    return workers / rate if rate else numpy.inf


def _failures_for_each_up(conditions: Conditions) -> float:
    """Seconds down for each second up."""
    return conditions.failures / 3600 * conditions.restart


def _few(up: Array) -> list[tuple[int, float]]:
    """A few numbers of workers, and the share of the time for which each of them is up."""
    counts, times = numpy.unique(up, return_counts=True)
    if len(counts) > _FEW:  # many workers: about the same number is up at any time
        counts, times = numpy.unique(numpy.quantile(up, (1 / 6, 1 / 2, 5 / 6), method="nearest"), return_counts=True)
    return [(int(count), float(time / times.sum())) for count, time in zip(counts, times, strict=True)]


def _queue(
    step: Step, conditions: Conditions, batch: float, workers: int, turns: int, random: numpy.random.Generator
) -> float:
    sending, serving = (float(value) for value in _links(step, conditions))
    noise = lognormal(random, (turns, workers), conditions.spread).astype(float)
    pauses = noise * float(step.compute(batch)) + (sending - serving)
    return _cycle(pauses, serving, float(step.feeding(1, batch)))


def _links(step: Step, conditions: Conditions) -> tuple[Any, Any]:
    """Seconds in which a gradient goes and weights come back; and those for which it keeps the servers busy."""
    near = step.workers_per_machine is None
    latency = step.latency if near else step.latency_between
    both_ways = 2 * step.gradient / (step.bandwidth if near else step.bandwidth_between)
    return 2 * latency + both_ways, both_ways / conditions.servers


def _cycle(pauses: Any, serving: float, feeding: float) -> float:
    """The mean time from one arrival at the servers to the same worker's next; a quarter of the turns is warm-up."""
    turns, workers = pauses.shape
    arrivals = [(float(pause), worker) for worker, pause in enumerate(pauses[0])]
    heapq.heapify(arrivals)
    rows = pauses.tolist()
    turn = [1] * workers
    free = total = 0.0
    fed = arrivals[0][0]  # with nothing in reserve, which would take long to be used up
    counted = 0
    for _ in range(workers * (turns - 1)):
        arrival, worker = arrivals[0]
        free = max(arrival, free) + serving
        fed = max(fed + feeding, free - workers * feeding)  # samples wait ready for one step of each worker
        mine = turn[worker]
        following = max(free, fed) + rows[mine % turns][worker]
        turn[worker] = mine + 1
        heapq.heapreplace(arrivals, (following, worker))
        if mine > 1 and 4 * mine >= turns:
            total, counted = total + following - arrival, counted + 1
    return total / counted
