"""Laws of scaling over workers: Amdahl's, Gustafson's and the Universal Scalability Law.

Each is a sum of simple terms with factors of 0 or above, either of items a second (Gustafson) or of the worker-seconds
that an item costs (the others). So the best fit is found without a starting guess, by `scipy.optimize.nnls`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy

from tenfold.scaling.estimate import Array


class Law(Protocol):
    """Items a second as a function of workers."""

    name: str
    """For people."""
    parameters: tuple[str, ...]
    """In the order of `named`; the first is "rate", the items a second of one worker."""
    per_worker: bool
    """The terms add up to worker-seconds per item, not to items a second."""

    def terms(self, workers: Array) -> Array:
        """A column for each factor."""

    def named(self, factors: Array) -> dict[str, float]:
        """The parameters that these factors stand for."""

    def throughput(self, workers: Array, params: Mapping[str, float]) -> Array:
        """Items a second."""


class Amdahl:
    """A share of the work cannot be divided: `serial`."""

    name = "Amdahl"
    parameters: tuple[str, ...] = ("rate", "serial")
    per_worker = True

    def terms(self, workers: Array) -> Array:
        return numpy.column_stack([numpy.ones_like(workers), workers])

    def named(self, factors: Array) -> dict[str, float]:
        whole = float(factors.sum())
        return {"rate": 1 / whole, "serial": float(factors[1]) / whole}

    def throughput(self, workers: Array, params: Mapping[str, float]) -> Array:
        return params["rate"] * workers / (1 + params["serial"] * (workers - 1))


class Gustafson:
    """The work grows with the workers; a share of the time, `serial`, does not speed up."""

    name = "Gustafson"
    parameters: tuple[str, ...] = ("rate", "serial")
    per_worker = False

    def terms(self, workers: Array) -> Array:
        return numpy.column_stack([numpy.ones_like(workers), workers])

    def named(self, factors: Array) -> dict[str, float]:
        whole = float(factors.sum())
        return {"rate": whole, "serial": float(factors[0]) / whole}

    def throughput(self, workers: Array, params: Mapping[str, float]) -> Array:
        return params["rate"] * (params["serial"] + (1 - params["serial"]) * workers)


class Usl:
    """The Universal Scalability Law: workers wait for each other (`contention`) and agree in pairs (`coherency`)."""

    name = "USL"
    parameters: tuple[str, ...] = ("rate", "contention", "coherency")
    per_worker = True

    def terms(self, workers: Array) -> Array:
        return numpy.column_stack([numpy.ones_like(workers), workers, workers * (workers - 1)])

    def named(self, factors: Array) -> dict[str, float]:
        whole = float(factors[0] + factors[1])
        return {"rate": 1 / whole, "contention": float(factors[1]) / whole, "coherency": float(factors[2]) / whole}

    def throughput(self, workers: Array, params: Mapping[str, float]) -> Array:
        waiting = params["contention"] * (workers - 1) + params["coherency"] * workers * (workers - 1)
        found: Array = params["rate"] * workers / (1 + waiting)
        return found


LAWS: tuple[Law, ...] = (Amdahl(), Gustafson(), Usl())


def peak(params: Mapping[str, float]) -> float:
    """Above how many workers more of them are slower, by the Universal Scalability Law; `inf` where never."""
    if params["coherency"] <= 0:
        return math.inf
    return max(1.0, math.sqrt((1 - params["contention"]) / params["coherency"]))
