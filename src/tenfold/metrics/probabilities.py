"""Metrics of predicted probabilities: log loss, Brier score, top-k accuracy and the calibration curve.

Each row gives a loss for every class that it might be of. The state has their sums for each true label, so that no
block needs to know which column a label has.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy

from tenfold.errors import BadCall
from tenfold.metrics import table
from tenfold.metrics.labels import columns_of, positive_of, shown
from tenfold.metrics.port import Array, Family, Readings, Reads, Value
from tenfold.metrics.reading import probabilities, same_length, scores, truth_labels
from tenfold.metrics.table import Table


class Losses(NamedTuple):
    """The state of a mean loss."""

    sums: Table
    """By true label: the sum of the losses, had the class been this column."""
    weights: Table
    """By true label: the weight of its rows, in one column."""


class MeanLoss(Family):
    """What log loss, Brier score and top-k accuracy share: a mean over rows, of a number that the true class picks."""

    reads: Reads = "probabilities"

    def __init__(self, name: str, classes: Array | None = None) -> None:
        self.name = name
        self.classes = classes

    @property
    def kin(self) -> Hashable:
        return self.name, None if self.classes is None else tuple(self.classes.tolist())

    def losses(self, predicted: object, first: int) -> Array:
        """(n, classes): what each row would give, were it of that class."""
        raise NotImplementedError

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true = truth_labels(truth, first)
        losses = self.losses(predicted, first)
        same_length(true, losses)
        labels, rows = numpy.unique(true, return_inverse=True)
        return Readings((rows, losses), labels)

    def gather(self, readings: Readings, weight: Array | None) -> Losses | None:
        rows, losses = readings.columns
        if len(rows) == 0:
            return None
        weight = numpy.ones(len(rows)) if weight is None else weight
        seen, sums = table.summed(rows, losses * weight[:, None])
        return _losses(readings.known[seen], sums, table.summed(rows, weight[:, None])[1])

    def join(self, a: Losses, b: Losses) -> Losses:
        return Losses(table.merged(a.sums, b.sums), table.merged(a.weights, b.weights))

    def replicate(self, readings: Readings, times: Array) -> Losses:
        rows, losses = readings.columns
        seen, totals = table.summed(rows, times)
        sums = numpy.stack([losses[rows == label].T @ times[rows == label] for label in seen])
        return _losses(readings.known[seen], sums, totals[:, None])

    def join_replicates(self, a: Losses, b: Losses) -> Losses:
        return self.join(a, b)

    def of_replicate(self, states: Losses, place: int) -> Losses | None:
        totals = states.weights.values[..., place]
        seen = numpy.flatnonzero(totals[:, 0])
        return (
            _losses(states.sums.labels[seen], states.sums.values[seen, :, place], totals[seen]) if len(seen) else None
        )

    def labels(self, state: Losses) -> Array:
        return state.sums.labels

    def value(self, state: Losses, labels: Array | None) -> Value:
        sums, width = state.sums, len(state.sums.columns)
        every = sums.labels if labels is None else labels
        columns = columns_of(every, width, self.classes)[numpy.searchsorted(every, sums.labels)]
        total = float(state.weights.values.sum())
        return float(sums.values[numpy.arange(len(columns)), columns].sum()) / total if total else float("nan")


def _losses(labels: Array, sums: Array, totals: Array) -> Losses:
    width = sums.shape[1]
    weights = Table(labels, numpy.zeros(1, numpy.int64), totals, 1)
    return Losses(Table(labels, numpy.arange(width), sums, width), weights)


class LogLoss(MeanLoss):
    """The mean of -log of the probability that the true class was given."""

    def losses(self, predicted: object, first: int) -> Array:
        given = probabilities(predicted, first)
        least = numpy.finfo(given.dtype).eps  # as scikit-learn clips, so that a 0 is not infinitely wrong
        return -numpy.log(numpy.clip(given.astype(numpy.float64), least, 1 - least))


class Brier(MeanLoss):
    """The mean squared distance from the true class; half of it for two classes, as scikit-learn has it."""

    def losses(self, predicted: object, first: int) -> Array:
        given = probabilities(predicted, first).astype(numpy.float64)
        squares = given**2
        losses = squares.sum(axis=1, keepdims=True) - squares + (1 - given) ** 2
        return numpy.asarray(losses / 2 if given.shape[1] == 2 else losses)


class TopK(MeanLoss):
    """The share of rows whose class is among the k with the greatest scores; of equal ones, the last columns count."""

    reads: Reads = "scores"

    def __init__(self, name: str, k: int, classes: Array | None = None) -> None:
        super().__init__(name, classes)
        self.k = k

    def losses(self, predicted: object, first: int) -> Array:
        given = scores(predicted, first)
        if given.shape[1] == 1:
            above = probabilities(predicted, first)[:, 1:] > 0.5
            given = numpy.concatenate([~above, above], axis=1)
        hits = numpy.zeros(given.shape)
        best = numpy.argsort(given, axis=1, kind="stable")[:, ::-1][:, : self.k]
        numpy.put_along_axis(hits, best, 1.0, axis=1)
        return hits


class Calibration(Family):
    """How often the positive class occurs where it was given a probability: one point for each bin that has rows."""

    reads: Reads = "probabilities"
    sampled = False

    def __init__(self, name: str, bins: int, classes: Array | None = None) -> None:
        self.name = name
        self.bins = bins
        self.classes = classes

    @property
    def kin(self) -> Hashable:
        return "calibration", self.bins, None if self.classes is None else tuple(self.classes.tolist())

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true = truth_labels(truth, first)
        given = probabilities(predicted, first).astype(numpy.float64)
        same_length(true, given)
        if given.shape[1] != 2:
            raise BadCall(f"{self.name} is for two classes, and {given.shape[1]} columns are predicted")
        edges = numpy.linspace(0, 1, self.bins + 1)[1:-1]
        labels, rows = numpy.unique(true, return_inverse=True)
        return Readings((rows, numpy.searchsorted(edges, given[:, 1]), given[:, 1]), labels)

    def gather(self, readings: Readings, weight: Array | None) -> Table | None:
        rows, bins, given = readings.columns
        if len(rows) == 0:
            return None
        weight = numpy.ones(len(rows)) if weight is None else weight
        seen, rows = numpy.unique(rows, return_inverse=True)
        cells, size = rows * self.bins + bins, len(seen) * self.bins
        sums = [numpy.bincount(cells, each, size) for each in (weight, weight * given)]
        values = numpy.stack(sums, axis=1).reshape(len(seen), self.bins, 2)
        return Table(readings.known[seen], numpy.arange(self.bins), values, self.bins)

    def join(self, a: Table, b: Table) -> Table:
        return table.merged(a, b)

    def labels(self, state: Table) -> Array:
        return state.labels

    def refuse(self, state: Table) -> str | None:
        if len(state.labels) > 2:
            return f"{self.name} is for two classes, and there are {len(state.labels)} labels: {shown(state.labels)}"
        return None

    def value(self, state: Table, labels: Array | None) -> Value:
        reason = self.refuse(state)
        positive = positive_of(state.labels if labels is None else labels, self.classes)
        if reason is not None or positive is None:
            raise BadCall(reason or f"{self.name}: which label is the positive one? There is only {state.labels[0]!r}")
        weight, given = state.values[..., 0].sum(axis=0), state.values[..., 1].sum(axis=0)
        found = state.values[state.labels == positive, :, 0].sum(axis=0)
        full = weight > 0
        return {
            "true": found[full] / weight[full],
            "predicted": given[full] / weight[full],
            "weight": weight[full],
        }

    def empty(self) -> Value:
        return {name: numpy.zeros(0) for name in ("true", "predicted", "weight")}
