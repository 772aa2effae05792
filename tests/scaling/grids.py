"""Grids with timings that are made up from known numbers and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.problem import Steps
from tenfold.scaling.steps import Step

NOISE = 0.02


def noisy(value: float, random: numpy.random.Generator, repeats: int = 3, noise: float = NOISE) -> list[float]:
    return [float(value * numpy.exp(noise * random.standard_normal())) for _ in range(repeats)]


def cells(
    seconds: Callable[[int, int], float],
    workers: Sequence[int],
    sizes: Sequence[int],
    *,
    how: str | None = None,
    engine: str | None = None,
    noise: float = NOISE,
) -> list[Cell]:
    """A cell for each number of workers and size."""
    random = numpy.random.default_rng(0)
    found = []
    for count in workers:
        for size in sizes:
            taken = (Taken(each, size, {}, 0, count) for each in noisy(seconds(count, size), random, noise=noise))
            found.append(Cell(Setting(count, size, how, engine), tuple(taken)))
    return found


def steps(
    true: Step,
    workers: Sequence[int],
    batches: Sequence[int],
    *,
    seed: int = 0,
    parts: bool = False,
    noise: float = NOISE,
) -> Steps:
    """Steps as they would be measured."""
    random = numpy.random.default_rng(seed)
    places = [(count, batch) for count in workers for batch in batches]
    seconds = [noisy(float(true.seconds(count, batch)), random, noise=noise) for count, batch in places]
    compute = [float(true.compute(batch)) for _, batch in places]
    sent = [float(true.joined(own, true.communication(n)) - own) for own, (n, _) in zip(compute, places, strict=True)]
    known = (compute, sent) if parts else (None, None)
    return Steps([count for count, _ in places], [batch for _, batch in places], seconds, *known)
