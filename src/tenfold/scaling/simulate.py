"""A run gone through event by event, to check what the closed form says: stragglers, failures, queues, input.

Vectorised over workers where they do the same at the same time, so that 10,000 of them take a second or two.
"""

from __future__ import annotations

from types import ModuleType
from typing import Literal

import numpy

from tenfold.scaling.conditions import Conditions
from tenfold.scaling.steps import Step
from tenfold.scaling.strategies import pipeline, servers, synchronous

How = Literal["synchronous", "parameter servers", "pipeline"]
STRATEGIES: dict[str, ModuleType] = {
    "synchronous": synchronous,
    "parameter servers": servers,
    "pipeline": pipeline,
}


def simulate(
    step: Step, conditions: Conditions, workers: int, *, how: How = "synchronous", steps: int = 200, seed: int = 0
) -> float:
    """Seconds of a step, on average over a long run; `inf` where failures leave no time for any."""
    random = numpy.random.default_rng([seed, workers])
    return float(STRATEGIES[how].simulated(step, conditions, workers, steps, random))
