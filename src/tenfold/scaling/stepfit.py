"""The step-time model fitted to measured steps: parameters with intervals, and whether they are to be trusted.

Overlap and a ceiling of the input are taken for real only where cells that were left out are then predicted better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.scaling.estimate import Array, Estimate, centres, interval, replicates
from tenfold.scaling.fitting import CLEARLY, POOR
from tenfold.scaling.problem import Problem, Steps
from tenfold.scaling.steps import Reduce, Step
from tenfold.scaling.units import percent, readable

COUNTED = 1.0
"""The size of a gradient whose bytes are not known."""

_UNITS = {
    "per_sample": ("compute for a sample", "s"),
    "fixed": ("for a step whatever its batch", "s"),
    "latency": ("a round of the all-reduce", "s"),
    "bandwidth": ("bandwidth", " bytes/s"),
    "overlap": ("overlap", ""),
    "input_rate": ("a ceiling of the input at", " samples/s"),
}
"""What a parameter is called by people, and its unit."""

_GAIN = 0.002
"""Of the mean relative error: less is chance."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedStep:
    """The model and how sure it is."""

    step: Step
    """The best guess."""
    intervals: dict[str, tuple[float, float]]
    """Where each parameter that was fitted lies with 95 %."""
    error: float
    """Mean relative error for cells that were left out of the fit; `inf` where too few are there to leave one out."""
    poor: str | None
    """Why it is not to be trusted, in a sentence."""
    draws: Step
    """The replicates of the bootstrap: a step whose numbers are columns."""

    def seconds(self, workers: int, batch: float) -> Estimate:
        """Seconds of a step of so many workers, with so many samples each."""
        value = float(self.step.seconds(workers, batch))
        low, high = interval(numpy.asarray(self.draws.seconds(workers, batch)).reshape(-1))
        return Estimate(value, min(low, value), max(high, value))

    def __str__(self) -> str:
        told = [self._told(name) for name in self.intervals]
        if self.poor is None:
            told.append(f"off by {percent(self.error, 1)} for cells that it had not seen")
        return f"Step: {', '.join(told + ([self.poor] if self.poor else []))}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _told(self, name: str) -> str:
        words, unit = _UNITS[name.removesuffix("_between")]
        where = " between machines" if name.endswith("_between") else ""
        if name.startswith("bandwidth") and self.step.gradient == COUNTED:
            unit = " gradients/s"
        value, (low, high) = float(getattr(self.step, name)), self.intervals[name]
        if unit == "s":
            return f"{words}{where} {readable(value)} ({readable(low)} to {readable(high)})"
        return f"{words}{where} {value:.3g}{unit} ({low:.3g} to {high:.3g})"


def fit_step(
    steps: Steps,
    *,
    gradient: float | None = None,
    workers_per_machine: int | None = None,
    reduce: Reduce = "ring",
    overlap: float | None = None,
    seed: int = 0,
) -> FittedStep:
    """Fit the model to measured steps.

    gradient             bytes that are added up in a step; None where they are not known: bandwidths are then in whole
                         gradients a second, and `from_fit` wants `parameters` to say anything about a network
    workers_per_machine  how many workers share a machine; None where all did
    reduce               how gradients were added up
    overlap              where it is known; 0 for workers that send only when they have computed
    """
    steps.check()
    _check(gradient, workers_per_machine, overlap)
    size = COUNTED if gradient is None else gradient
    known = Step(1.0, gradient=size, workers_per_machine=workers_per_machine, reduce=reduce, overlap=overlap or 0.0)
    own = centres(steps.seconds)
    chosen, error = _chosen(Problem(steps, known), own, free_overlap=overlap is None)
    step = chosen.solved(own)
    fitted = numpy.asarray(step.seconds(chosen.workers, chosen.batch))
    rows = replicates(steps.seconds, fitted, parameters=len(chosen.names), seed=seed)
    drawn = [chosen.solved(row, start=step) for row in rows]
    columns: dict[str, Any] = {
        name: numpy.array([[getattr(one, name)] for one in drawn], dtype=float) for name in chosen.names
    }
    intervals = {name: interval(column[:, 0]) for name, column in columns.items()}
    return FittedStep(step, intervals, error, _poor(error, chosen, own), replace(step, **columns))


def _check(gradient: float | None, workers_per_machine: int | None, overlap: float | None) -> None:
    faults = []
    if gradient is not None and not 0 < gradient < math.inf:
        faults.append(f"gradient={gradient!r}: expected bytes, above 0, or None where they are not known")
    if workers_per_machine is not None and not workers_per_machine >= 1:
        faults.append(f"workers_per_machine={workers_per_machine!r}: expected 1 or above, or None for one machine")
    if overlap is not None and not 0 <= overlap <= 1:
        faults.append(f"overlap={overlap!r}: expected a share from 0 to 1, or None where it is not known")
    if faults:
        raise BadCall("; ".join(faults))


def _chosen(problem: Problem, seconds: Array, *, free_overlap: bool) -> tuple[Problem, float]:
    """The problem with those bends that make it clearly better at cells that it has not seen."""
    best, error = problem, problem.left_out(seconds)
    sends = "bandwidth" in problem.terms or "bandwidth_between" in problem.terms
    ways = [("input_rate",), *([("overlap",), ("overlap", "input_rate")] if free_overlap and sends else [])]
    for bends in ways:
        other = problem.bent(*bends)
        if not other.is_felt(other.solved(seconds)):
            continue
        found = other.left_out(seconds)
        if found * CLEARLY < error - _GAIN:
            best, error = other, found
    return best, error


def _poor(error: float, problem: Problem, seconds: Array) -> str | None:
    found = []
    if problem.untold:
        names = " and ".join(problem.untold)
        found.append(f"these cells cannot tell {names} from the rest, so it is left out; measure another batch")
    if math.isinf(error):
        found.append(f"too few cells ({len(seconds)}) for {len(problem.names)} numbers and a check; measure more")
    elif error > POOR:
        found.append(f"poor: cells that it has not seen are predicted {percent(error)} wrong on average")
    if max(problem.workers) == 1:
        found.append("all cells have one worker, so how long gradients take to be added up is not known")
    return "; ".join(found) or None
