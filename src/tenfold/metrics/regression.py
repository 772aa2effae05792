"""Metrics of numbers: MSE, RMSE, MAE, MAPE, R2 and explained variance. Several outputs are averaged."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.port import Array, Family, Readings
from tenfold.metrics.reading import numbers, same_length

SMALLEST = float(numpy.finfo(numpy.float64).eps)
"""What a truth of 0 is taken for where it is divided by: scikit-learn's number."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and spread of numbers, which merge without losing digits (Chan, Golub and LeVeque 1979)."""

    weight: Any
    """The weight of all rows; of several replicates, an array."""
    mean: Array
    """Their mean, for each output."""
    squares: Array
    """The sum of the squared distances from it."""

    def join(self, other: Spread) -> Spread:
        """Of the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / numpy.where(weight == 0, 1, weight)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * (self.weight * share)
        return Spread(weight, self.mean + apart * share, squares)

    def of_replicate(self, place: int) -> Spread:
        """Of one of several."""
        return Spread(float(self.weight[place]), self.mean[:, place], self.squares[:, place])


def spread(values: Array, weight: Array) -> Spread:
    """Of one block. The first row is taken off, so that equal numbers have a spread of exactly 0."""
    total = float(weight.sum())
    if total == 0:
        return Spread(0.0, numpy.zeros(values.shape[1]), numpy.zeros(values.shape[1]))
    moved = values - values[0]
    mean = weight @ moved / total
    return Spread(total, values[0] + mean, weight @ (moved - mean) ** 2)


def spreads(values: Array, times: Array) -> Spread:
    """The same of all replicates; `times` is (rows, replicates)."""
    columns = [_spread_of_replicates(column, times) for column in values.T]
    means, squares = (numpy.stack(each) for each in zip(*columns, strict=True))
    return Spread(times.sum(axis=0), means, squares)


def _spread_of_replicates(values: Array, times: Array) -> tuple[Array, Array]:
    total = times.sum(axis=0)
    moved = (values - values[0])[:, None]
    mean = (moved * times).sum(axis=0) / numpy.where(total == 0, 1, total)
    squares = ((moved - mean) ** 2 * times).sum(axis=0)
    # Few rows may all be equal, and then rounding must not make a spread of them, by which something is divided.
    there, column = times > 0, values[:, None]
    low, high = numpy.where(there, column, numpy.inf).min(axis=0), numpy.where(there, column, -numpy.inf).max(axis=0)
    return numpy.where(low == high, low, values[0] + mean), numpy.where(low == high, 0, squares)


class Regression(Family):
    """What they share: how they read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true, given = numbers("truth", truth, first), numbers("predicted", predicted, first)
        same_length(true, given)
        if true.shape != given.shape:
            raise BadCall(f"truth has the shape {true.shape} and predicted {given.shape}: expected the same outputs")
        return Readings((true, given))


@dataclass(frozen=True, slots=True)
class Sums:
    """The state of a mean error."""

    weight: Any
    """Of all rows; of several replicates, an array."""
    errors: Array
    """The sum of the errors, for each output."""


class MeanError(Regression):
    """The mean over rows of an error, then over outputs of `final` of it."""

    def __init__(
        self,
        name: str,
        error: Callable[[Array, Array], Array],
        final: Callable[[Array], Array] = numpy.asarray,
    ) -> None:
        super().__init__(name)
        self.error = error
        self.final = final

    @property
    def kin(self) -> Hashable:
        return "mean error", self.error

    def gather(self, readings: Readings, weight: Array | None) -> Sums | None:
        errors = self.error(*readings.columns)
        if len(errors) == 0:
            return None
        if weight is None:
            return Sums(float(len(errors)), errors.sum(axis=0))
        return Sums(float(weight.sum()), weight @ errors)

    def join(self, a: Sums, b: Sums) -> Sums:
        return Sums(a.weight + b.weight, _same_outputs(a.errors, b.errors) + b.errors)

    def replicate(self, readings: Readings, times: Array) -> Sums:
        return Sums(times.sum(axis=0), self.error(*readings.columns).T @ times)

    def join_replicates(self, a: Sums, b: Sums) -> Sums:
        return self.join(a, b)

    def of_replicate(self, states: Sums, place: int) -> Sums:
        return Sums(float(states.weight[place]), states.errors[:, place])

    def value(self, state: Sums, labels: Array | None) -> float:
        return float(numpy.mean(self.final(state.errors / state.weight))) if state.weight else float("nan")


@dataclass(frozen=True, slots=True)
class Spreads:
    """The state of R2 and explained variance."""

    rows: int
    """How many there were."""
    squares: Array
    """The sum of squared errors, for each output."""
    truth: Spread
    """Of the true numbers."""
    errors: Spread
    """Of the errors."""


class Explained(Regression):
    """R2, or with `centred` the explained variance, which does not mind predictions that are all off by the same."""

    def __init__(self, name: str, centred: bool) -> None:
        super().__init__(name)
        self.centred = centred

    @property
    def kin(self) -> Hashable:
        return "explained"

    def gather(self, readings: Readings, weight: Array | None) -> Spreads | None:
        true, given = readings.columns
        if len(true) == 0:
            return None
        weight = numpy.ones(len(true)) if weight is None else weight
        errors = true - given
        return Spreads(len(true), weight @ errors**2, spread(true, weight), spread(errors, weight))

    def join(self, a: Spreads, b: Spreads) -> Spreads:
        squares = _same_outputs(a.squares, b.squares) + b.squares
        return Spreads(a.rows + b.rows, squares, a.truth.join(b.truth), a.errors.join(b.errors))

    def replicate(self, readings: Readings, times: Array) -> Spreads:
        true, given = readings.columns
        errors = true - given
        return Spreads(len(true), (errors**2).T @ times, spreads(true, times), spreads(errors, times))

    def join_replicates(self, a: Spreads, b: Spreads) -> Spreads:
        return self.join(a, b)

    def of_replicate(self, states: Spreads, place: int) -> Spreads:
        spread_of = states.truth.of_replicate(place), states.errors.of_replicate(place)
        return Spreads(states.rows, states.squares[:, place], *spread_of)

    def value(self, state: Spreads, labels: Array | None) -> float:
        if state.truth.weight == 0 or (state.rows < 2 and not self.centred):
            return float("nan")
        top, bottom = state.errors.squares if self.centred else state.squares, state.truth.squares
        with numpy.errstate(divide="ignore", invalid="ignore"):
            scores = 1 - top / bottom
        # Truth that is always the same: right or wrong, as scikit-learn says it.
        scores = numpy.where(bottom == 0, numpy.where(top == 0, 1.0, 0.0), scores)
        return float(scores.mean())


def squared(true: Array, given: Array) -> Array:
    return numpy.asarray((true - given) ** 2)


def absolute(true: Array, given: Array) -> Array:
    return numpy.asarray(numpy.abs(true - given))


def relative(true: Array, given: Array) -> Array:
    return numpy.asarray(numpy.abs(true - given) / numpy.maximum(numpy.abs(true), SMALLEST))


def _same_outputs(a: Array, b: Array) -> Array:
    if a.shape != b.shape:
        raise BadCall(f"some blocks have {len(a)} outputs and others {len(b)}: expected all to be alike")
    return a
