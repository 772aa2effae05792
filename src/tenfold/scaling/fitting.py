"""Laws fitted to what was measured: parameters with intervals, and the law that predicts best what it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy

from tenfold.errors import BadCall
from tenfold.machine.installed import imported
from tenfold.scaling.estimate import Array, Estimate, centres, interval, replicates
from tenfold.scaling.laws import LAWS, Law, peak
from tenfold.scaling.units import percent

POOR = 0.1
"""A mean error above this is told: predictions are then worth little."""
CLEARLY = 1.1
"""A law with more parameters must have an error that is smaller by more than this factor."""
RIVAL = 3.0
"""A law whose error is larger by less than this factor may still be the true one."""
_MOST = 50
"""Iterations for each factor; the default of 3 may be too few where terms are nearly alike."""
_PASSES = 3
"""How often errors are weighed anew by the fit's own values instead of the measured ones, which bend it downwards."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fitted:
    """A law and what it is like for the measured cells."""

    law: Law
    """Which."""
    params: dict[str, float]
    """By name; empty where it could not be fitted."""
    intervals: dict[str, tuple[float, float]]
    """Where each parameter lies with 95 %."""
    error: float
    """Mean relative error for a number of workers that was left out of the fit; `inf` where none could be."""
    poor: str | None = None
    """Why it is not to be trusted, in a sentence."""
    draws: list[dict[str, float]] = field(default_factory=list, repr=False)
    """The parameters of each replicate of the bootstrap."""

    rivals: tuple[Fitted, ...] = field(default=(), repr=False)
    """Laws that explain the cells about as well; far away they may say something else."""

    @property
    def is_fitted(self) -> bool:
        """There are parameters."""
        return bool(self.params)

    @property
    def peak(self) -> Estimate:
        """Above how many workers more of them are slower; `inf` where never."""
        if "coherency" not in self.params:
            return Estimate(math.inf, math.inf, math.inf)
        low, high = interval(numpy.array([peak(params) for params in self.draws]))
        value = peak(self.params)
        return Estimate(value, min(low, value), max(high, value))

    def throughput(self, workers: float) -> Estimate:
        """Items a second; the interval holds what rivals say, too."""
        if not self.is_fitted:
            raise BadCall(f"{self.law.name}: {self.poor}")
        at = numpy.array([float(workers)])
        value = float(self.law.throughput(at, self.params)[0])
        drawn = numpy.array([float(self.law.throughput(at, params)[0]) for params in self.draws])
        low, high = interval(drawn)
        others = [rival.throughput(workers) for rival in self.rivals]
        ends = [value, low, high, *(end for other in others for end in (other.low, other.high))]
        return Estimate(value, min(ends), max(ends))

    def __str__(self) -> str:
        told = [f"{name} {Estimate(value, *self.intervals[name])}" for name, value in self.params.items()]
        if self.poor is None:
            told.append(f"off by {percent(self.error, 1)} where it had not seen the number of workers")
        return f"{self.law.name}: {', '.join(told + ([self.poor] if self.poor else []))}"

    def __repr__(self) -> str:
        return f"<{self}>"


def fit_all(
    workers: Sequence[int], throughput: Sequence[Sequence[float]], *, scaled: bool = False, seed: int = 0
) -> list[Fitted]:
    """Every law, the one with the smallest error first; those that cannot be fitted are last and say why.

    workers      how many at once, each number once
    throughput   for each, the items a second of every repeat
    scaled       the work grows with the workers, as Gustafson's law supposes
    """
    _check(workers, throughput)
    counts = numpy.asarray(workers, dtype=float)
    found = [_fitted(law, counts, throughput, scaled=scaled, seed=seed) for law in LAWS]
    return ranked(found)


def ranked(found: Sequence[Fitted]) -> list[Fitted]:
    """The one with the smallest error first; of equal ones, that with fewer parameters."""
    return sorted(found, key=lambda one: (not one.is_fitted, one.error, len(one.law.parameters)))


def best(
    workers: Sequence[int], throughput: Sequence[Sequence[float]], *, scaled: bool = False, seed: int = 0
) -> Fitted | None:
    """The simplest law of those that predict about as well as the first; None where none could be fitted."""
    return simplest(fit_all(workers, throughput, scaled=scaled, seed=seed))


def simplest(found: Sequence[Fitted]) -> Fitted | None:
    """The same, of laws that are fitted already."""
    usable = [one for one in found if one.is_fitted]
    if not usable:
        return None
    close = [one for one in usable if one.error <= usable[0].error * CLEARLY or one.error == usable[0].error]
    chosen = min(close, key=lambda one: len(one.law.parameters))
    rivals = [one for one in usable if one is not chosen and one.error <= RIVAL * usable[0].error]
    return replace(chosen, rivals=tuple(rivals))


def nonnegative(terms: Array, values: Array) -> Array:
    """Factors of 0 or above whose sum of terms is near to the values, in relative error."""
    nnls: Callable[..., tuple[Array, float]] = imported("scipy.optimize", "scipy, which fits need,", "measure").nnls
    weights = values
    # Terms may differ by many powers of ten (latencies, bytes); of one size they are solved more exactly.
    sizes = numpy.abs(terms / values[:, None]).max(axis=0)
    sizes[sizes == 0] = 1.0
    factors = numpy.zeros(terms.shape[1])
    for _ in range(_PASSES):
        factors = nnls(terms / sizes / weights[:, None], values / weights, maxiter=_MOST * len(sizes))[0] / sizes
        weights = numpy.maximum(terms @ factors, values * 0.1)
    return factors


def _fitted(law: Law, workers: Array, throughput: Sequence[Sequence[float]], *, scaled: bool, seed: int) -> Fitted:
    wanted, there = len(law.parameters), len(workers)
    if law.name == "Gustafson" and not scaled:
        return _unfitted(law, "not fitted: it is about work that grows with the workers, and the size is the same here")
    if there < wanted:
        counts = "one worker count is" if there == 1 else f"{there} worker counts are"
        return _unfitted(law, f"not fitted: {counts} too few for {wanted} parameters; measure {wanted + 1} or more")
    own = centres(throughput)
    factors = _solved(law, workers, own)
    params = law.named(factors)
    rows = replicates(throughput, law.throughput(workers, params), parameters=wanted, seed=seed)
    draws = [law.named(_solved(law, workers, row)) for row in rows]
    intervals = {name: interval(numpy.array([draw[name] for draw in draws])) for name in law.parameters}
    error = _left_out(law, workers, own) if there > wanted else math.inf
    return Fitted(law, params, intervals, error, _poor(error, wanted, there), draws)


def _solved(law: Law, workers: Array, throughput: Array) -> Array:
    return nonnegative(law.terms(workers), workers / throughput if law.per_worker else throughput)


def _left_out(law: Law, workers: Array, throughput: Array) -> float:
    errors = []
    for place in range(len(workers)):
        rest = numpy.arange(len(workers)) != place
        params = law.named(_solved(law, workers[rest], throughput[rest]))
        predicted = float(law.throughput(workers[[place]], params)[0])
        errors.append(abs(predicted / throughput[place] - 1))
    return float(numpy.mean(errors))


def _poor(error: float, wanted: int, there: int) -> str | None:
    if math.isinf(error):
        return f"{wanted} parameters from {there} worker counts: no count is left to check it by; measure one more"
    if error > POOR:
        return f"poor: a number of workers that it has not seen is predicted {percent(error)} wrong on average"
    return None


def _unfitted(law: Law, why: str) -> Fitted:
    return Fitted(law, {}, {}, math.inf, why)


def _check(workers: Sequence[int], throughput: Sequence[Sequence[float]]) -> None:
    faults = []
    if not len(workers) or len(workers) != len(throughput):
        faults.append(f"workers={list(workers)!r}: expected as many as there are lists of repeats, {len(throughput)}")
    if len(set(workers)) != len(workers) or any(not count >= 1 for count in workers):
        faults.append(f"workers={list(workers)!r}: expected numbers from 1, each once")
    for repeats in throughput:
        if not len(repeats) or not all(0 < value < math.inf for value in repeats):
            faults.append(f"throughput: {list(repeats)!r}: expected at least one repeat, each above 0")
    if faults:
        raise BadCall("; ".join(faults))
