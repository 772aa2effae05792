"""Measured steps, and the step that is nearest to them.

Compute and all-reduce are sums of terms, so a first fit needs no starting guess. Overlap and the ceiling of the input
bend the sum; they are found from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.machine.installed import imported
from tenfold.scaling.estimate import Array
from tenfold.scaling.fitting import nonnegative
from tenfold.scaling.steps import Step, rounds, volume

_FOLDS = 8
"""Into which cells are divided to leave some out."""
_FEWEST = 3
"""Cells: of two, one says nothing about the other."""
_LEAST = 0.02
"""Overlap: below it there is none."""
_TINY = 1e-9
"""Of a step: a term that is smaller has no part in it."""
_EXACT, _TRIES = 1e-6, 150
"""When a search ends: what would change is far below the noise of any clock."""
_FAR = 80.0
"""Logarithms beyond this are nothing, or everything."""
_COMPUTE = ("per_sample", "fixed")
_STARTS = {"overlap": (0.2, 0.8), "input_rate": (1.05, 1.5)}
"""From which the fit goes on: a share, and how many times the highest rate that was measured."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Measured steps: a cell for each number of workers and batch."""

    workers: Sequence[int]
    """How many at once."""
    batch: Sequence[float]
    """Samples of each worker in a step."""
    seconds: Sequence[Sequence[float]]
    """Of a step, in every repeat."""
    compute: Sequence[float] | None = None
    """Seconds of compute in a step, from the workers' own clocks (the part "compute"), where they are known."""
    communication: Sequence[float] | None = None
    """Seconds of a step in which workers only sent and received (the part "communication"), where they are known."""

    def check(self) -> None:
        """Refuse what cannot be fitted."""
        faults = []
        several = [self.workers, self.batch, self.seconds, self.compute, self.communication]
        if len({len(each) for each in several if each is not None}) != 1 or not len(self.workers):
            faults.append(f"steps of {len(self.workers)} cells: expected as many values of each kind, and at least one")
        if any(not count >= 1 for count in self.workers) or any(not 0 < size < math.inf for size in self.batch):
            faults.append(f"workers={list(self.workers)!r}, batch={list(self.batch)!r}: expected 1 or above")
        for each in self.seconds:
            if not len(each) or not all(0 < value < math.inf for value in each):
                faults.append(f"seconds: {list(each)!r}: expected at least one repeat, each above 0")
        if faults:
            raise BadCall("; ".join(faults))


class Problem:
    """Cells, which parameters are free, and the fit of them."""

    def __init__(self, steps: Steps, known: Step, bends: tuple[str, ...] = ()) -> None:
        self.steps, self.known, self.bends = steps, known, bends
        self.workers = numpy.asarray(steps.workers, dtype=float)
        self.batch = numpy.asarray(steps.batch, dtype=float)
        parts = (steps.compute, steps.communication)
        self.compute, self.sent = (None if part is None else numpy.asarray(part, dtype=float) for part in parts)
        wanted = self._terms()
        self.terms = self._told_apart(wanted)
        self.untold = [name for name in wanted if name not in self.terms]
        self.names = (*self.terms, *bends)
        rows = numpy.column_stack(list(self.terms.values()))
        self._own = rows * [name in _COMPUTE for name in self.terms]
        self._sends = rows - self._own

    def but(self, keep: Array) -> Problem:
        """The same with fewer cells."""
        parts: dict[str, Any] = {field.name: getattr(self.steps, field.name) for field in fields(self.steps)}
        kept: dict[str, Any] = {
            k: None if v is None else [v[place] for place in numpy.flatnonzero(keep)] for k, v in parts.items()
        }
        return Problem(Steps(**kept), self.known, self.bends)

    def bent(self, *bends: str) -> Problem:
        return Problem(self.steps, self.known, bends)

    def _terms(self) -> dict[str, Array]:
        """What a unit of each parameter adds to a step; those that these cells cannot tell apart are left out."""
        inside, machines = self.known.layout(self.workers)
        found = {"per_sample": self.batch}
        if len(set(self.batch)) > 1:
            found["fixed"] = numpy.ones_like(self.batch)
        for count, ending in ((inside, ""), (machines, "_between")):
            several = set(count[count > 1])
            if several:  # with one such count alone, latency and bandwidth are one number: bytes take it all
                found[f"bandwidth{ending}"] = self.known.gradient * volume(count)
            if len(several) > 1:
                found[f"latency{ending}"] = rounds(count, self.known.reduce)
        return found

    def _told_apart(self, terms: dict[str, Array]) -> dict[str, Array]:
        """Without what other terms can stand for: a batch that is divided among workers looks like an all-reduce."""
        for name in ("fixed", "latency_between", "latency", "bandwidth_between", "bandwidth"):
            rows = self._rows(terms)
            if numpy.linalg.matrix_rank(rows / rows.max(axis=0)) == len(terms):
                break
            terms = {other: term for other, term in terms.items() if other != name}
        return terms

    def _rows(self, terms: dict[str, Array]) -> Array:
        """A column for each term; rows for the steps, then for the parts of them that are known."""
        rows = [numpy.column_stack(list(terms.values()))]
        for part, of_compute in self._parts():
            chosen = [term * ((name in _COMPUTE) == of_compute) for name, term in terms.items()]
            rows.append(numpy.column_stack(chosen)[part > 0])
        return numpy.vstack(rows)

    def _parts(self) -> list[tuple[Array, bool]]:
        """Of steps whose parts do not overlap; the others are looked at when the sum is bent."""
        if self.bends or self.known.overlap:
            return []
        return [(part, place == 0) for place, part in enumerate((self.compute, self.sent)) if part is not None]

    def solved(self, seconds: Array, start: Step | None = None) -> Step:
        """The step that is nearest to these seconds in relative error."""
        first = self._linear(seconds)
        if not self.bends and not self.known.overlap:
            return first
        begin = [start] if start is not None else self._starts(first, seconds)
        return min((self._bent(one, seconds) for one in begin), key=lambda one: self._distance(one, seconds))

    def is_felt(self, step: Step) -> bool:
        """The bends show: a ceiling of the input in at least two cells, for one above all others would be a guess."""
        if "overlap" in self.bends and step.overlap < _LEAST:
            return False
        if "input_rate" not in self.bends:
            return True
        together = step.joined(step.compute(self.batch), step.communication(self.workers))
        return int((step.feeding(self.workers, self.batch) > together).sum()) > 1

    def _linear(self, seconds: Array) -> Step:
        values = numpy.concatenate([seconds, *(part[part > 0] for part, _ in self._parts())])
        factors = dict(zip(self.terms, nonnegative(self._rows(self.terms), values), strict=True))
        found: dict[str, Any] = {name: _natural(name, factor) for name, factor in factors.items()}
        return replace(self.known, **found)

    def _starts(self, first: Step, seconds: Array) -> list[Step]:
        found = [first]
        for name in self.bends:
            most = float((self.workers * self.batch / seconds).max()) if name == "input_rate" else 1.0
            values: list[dict[str, Any]] = [{name: most * value} for value in _STARTS[name]]
            found = [replace(one, **value) for one in found for value in values]
        return found

    def _bent(self, start: Step, seconds: Array) -> Step:
        optimize = imported("scipy.optimize", "scipy, which fits need,", "measure")
        least = [_TINY * float(seconds.min()) / float(term.max()) for term in self.terms.values()]
        factors = numpy.maximum([_factor(name, getattr(start, name)) for name in self.terms], least)
        bends = [_closed(name, getattr(start, name)) for name in self.bends]
        point = numpy.concatenate([numpy.log(factors), bends])

        def left(point: Array) -> Array:
            found = self._left(point, seconds)
            return numpy.pad(found, (0, max(0, len(point) - len(found))))  # as many as there are numbers to find

        # Its derivatives are taken in C. `least_squares` takes them in Python, too slowly for hundreds of replicates.
        found = optimize.leastsq(left, point, ftol=_EXACT, xtol=_EXACT, maxfev=_TRIES, full_output=True)[0]
        return self._opened(found)

    def _opened(self, point: Array) -> Step:
        """The step that a point of the search stands for."""
        factors, overlap, rate = self._numbers(point)
        found: dict[str, Any] = {name: _natural(name, factor) for name, factor in zip(self.terms, factors, strict=True)}
        return replace(self.known, **found, overlap=overlap, input_rate=rate)

    def _numbers(self, point: Array) -> tuple[Array, float, float]:
        """Factors of the terms, overlap and ceiling: points have no bounds, so that a search may go anywhere."""
        factors = numpy.exp(numpy.clip(point[: len(self.terms)], -_FAR, _FAR))
        bends = dict(zip(self.bends, point[len(self.terms) :], strict=True))
        overlap = 1 / (1 + math.exp(-_near(bends["overlap"]))) if "overlap" in bends else float(self.known.overlap)
        return factors, overlap, math.exp(_near(bends["input_rate"])) if "input_rate" in bends else math.inf

    def _left(self, point: Array, seconds: Array) -> Array:
        """Relative differences between model and measurement, of steps and of the parts that are known."""
        factors, overlap, rate = self._numbers(point)
        compute, sent = self._own @ factors, self._sends @ factors
        together = compute + sent - overlap * numpy.minimum(compute, sent)
        left = [numpy.maximum(together, self.workers * self.batch / rate) / seconds - 1]
        if self.compute is not None:
            left.append((compute - self.compute) / seconds)
        if self.sent is not None:
            left.append((together - compute - self.sent) / seconds)
        found: Array = numpy.minimum(numpy.concatenate(left), 1e3)
        return found

    def _distance(self, step: Step, seconds: Array) -> float:
        bends = [_closed(name, getattr(step, name)) for name in self.bends]
        with numpy.errstate(divide="ignore"):
            factors = numpy.log([_factor(name, getattr(step, name)) for name in self.terms])
        return float((self._left(numpy.concatenate([factors, bends]), seconds) ** 2).sum())

    def left_out(self, seconds: Array) -> float:
        """Mean relative error for cells that a fit of the others had not seen."""
        if len(seconds) < _FEWEST or len(self._rows(self.terms)) <= len(self.names):
            return math.inf
        errors: list[float] = []
        folds = numpy.arange(len(seconds)) % min(_FOLDS, len(seconds))
        for fold in range(int(folds.max()) + 1):
            rest = folds != fold
            step = self.but(rest).solved(seconds[rest])
            predicted = numpy.asarray(step.seconds(self.workers[~rest], self.batch[~rest]))
            errors += numpy.abs(predicted / seconds[~rest] - 1).tolist()
        return float(numpy.mean(errors))


def _natural(name: str, factor: float) -> float:
    """A factor is seconds for each byte where the parameter is bytes for each second."""
    if not name.startswith("bandwidth"):
        return float(factor)
    return 1 / float(factor) if factor > 0 else math.inf


def _factor(name: str, value: float) -> float:
    return 1 / value if name.startswith("bandwidth") else value


def _closed(name: str, value: float) -> float:
    """A number without bounds for one that has some."""
    return math.log(value / max(1 - value, 1e-16)) if name == "overlap" else math.log(value)


def _near(value: float) -> float:
    return min(max(value, -_FAR), _FAR)
