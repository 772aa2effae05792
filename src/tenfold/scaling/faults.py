"""Failures of workers that must all go on together: in closed form, and as a timeline of them.

After a failure all workers start again from the last checkpoint, and what came after it is done again. A start that is
met by the next failure is repeated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from tenfold.scaling.conditions import Conditions
from tenfold.scaling.estimate import Array

_FAILURES = 4000
"""Of a timeline: the mean time between two of them is then within 2 or 3 %."""


def per_step(seconds: Any, conditions: Conditions, workers: Any) -> Any:
    """Seconds of a step with what checkpoints and failures add to it, on average."""
    rate = conditions.failures_per_second(workers)
    every = steps_between(seconds, conditions, rate)
    if conditions.failures == 0:
        return seconds + conditions.checkpoint / every
    period = every * seconds + conditions.checkpoint
    with numpy.errstate(over="ignore"):  # a run that fails all the time takes for ever
        return numpy.exp(rate * conditions.restart) * numpy.expm1(rate * period) / rate / every


def steps_between(seconds: Any, conditions: Conditions, rate: Any) -> Any:
    """Checkpoints every so many steps; where nobody said how many, those that cost least (Young's rule)."""
    if conditions.checkpoint_every is not None:
        return conditions.checkpoint_every
    if conditions.failures == 0:
        return math.inf
    return numpy.maximum(1.0, numpy.round(numpy.sqrt(2 * conditions.checkpoint / rate) / seconds))


def timeline(durations: Array, conditions: Conditions, workers: int, random: numpy.random.Generator) -> float:
    """Seconds of a step in a run with failures, from the durations of steps without any."""
    mean = float(durations.mean())
    rate = float(conditions.failures_per_second(workers))
    every = float(steps_between(mean, conditions, rate))
    if rate == 0:
        return mean + conditions.checkpoint / every
    periods = _periods(durations, int(every)) + conditions.checkpoint
    until = random.exponential(1 / rate, _FAILURES)
    kept = _whole_periods(periods, until, random) * every
    spent = float(until.sum()) + _restarts(rate, conditions.restart, random)
    return spent / kept if kept else math.inf


def _periods(durations: Array, every: int) -> Array:
    """Seconds from one checkpoint to the next."""
    if every >= len(durations):
        return numpy.array([every * float(durations.mean())])
    whole = len(durations) // every * every
    found: Array = durations[:whole].reshape(-1, every).sum(axis=1)
    return found


def _whole_periods(periods: Array, until: Array, random: numpy.random.Generator) -> int:
    """How many come to their end before each failure, in all; each time from another place in the row of periods."""
    ends = numpy.concatenate([[0.0], numpy.cumsum(numpy.concatenate([periods, periods]))])
    round_trip = ends[len(periods)]
    first = random.integers(len(periods), size=len(until))
    trips, rest = numpy.divmod(until, round_trip)
    last = numpy.searchsorted(ends, ends[first] + rest, side="right") - 1
    return int((trips * len(periods) + last - first).sum())


def _restarts(rate: float, restart: float, random: numpy.random.Generator) -> float:
    """Seconds of all of them, with those that a failure met."""
    if restart == 0:
        return 0.0
    undisturbed = math.exp(-rate * restart)
    if undisturbed < 1e-6:
        return math.inf
    tries = int((random.geometric(undisturbed, _FAILURES) - 1).sum())
    met = 1 / rate - restart / math.expm1(rate * restart)  # the mean of those that were disturbed
    return _FAILURES * restart + tries * met
