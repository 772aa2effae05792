"""Metrics that are made of counts: how many rows of each label were predicted to be of which class.

Accuracy, balanced accuracy, precision, recall, F1 and the confusion matrix have one state, so asking for all costs as
much as asking for one. Where a share has nothing to be a share of, it is 0, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy

from tenfold.errors import BadCall
from tenfold.metrics import table
from tenfold.metrics.labels import positive_of, shown, union
from tenfold.metrics.port import Array, Family, Readings, Value
from tenfold.metrics.reading import chosen, same_length, truth_labels
from tenfold.metrics.table import Table

Share = Literal["precision", "recall", "f1"]
Average = Literal["binary", "micro", "macro", "weighted", "per_class"]


class Counts(Family):
    """What they share: the state is a table of counts, truth by prediction."""

    def __init__(self, name: str, classes: Array | None = None) -> None:
        self.name = name
        self.classes = classes

    @property
    def kin(self) -> Hashable:
        return "counts", None if self.classes is None else tuple(self.classes.tolist())

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true = truth_labels(truth, first)
        classes, width = chosen(predicted, first)
        same_length(true, classes)
        if width is None:
            union(true[:1], classes[:1])  # refuses two kinds at the first block
        labels, rows = numpy.unique(true, return_inverse=True)
        columns, places = numpy.unique(classes, return_inverse=True)
        return Readings((rows, places), (labels, columns, width))

    def gather(self, readings: Readings, weight: Array | None) -> Table | None:
        rows, places = readings.columns
        labels, columns, width = readings.known
        if len(rows) == 0:
            return None
        size = len(labels) * len(columns)
        values = numpy.bincount(rows * len(columns) + places, weight, size).reshape(len(labels), len(columns))
        # A part of a block need not have all its labels, and a label without rows does not count in averages.
        true, predicted = numpy.unique(rows), numpy.unique(places)
        values = values[numpy.ix_(true, predicted)].astype(numpy.float64)
        return Table(labels[true], columns[predicted], values, width)

    def join(self, a: Table, b: Table) -> Table:
        return table.merged(a, b)

    def replicate(self, readings: Readings, times: Array) -> Table:
        rows, places = readings.columns
        labels, columns, width = readings.known
        cells, sums = table.summed(rows * len(columns) + places, times)
        values = numpy.zeros((len(labels) * len(columns), times.shape[1]))
        values[cells] = sums
        return Table(labels, columns, values.reshape(len(labels), len(columns), -1), width)

    def join_replicates(self, a: Table, b: Table) -> Table:
        return table.merged(a, b)

    def of_replicate(self, states: Table, place: int) -> Table | None:
        values = states.values[..., place]
        true, predicted = (numpy.flatnonzero(values.sum(axis=axis)) for axis in (1, 0))
        if len(true) == 0:
            return None
        return Table(states.labels[true], states.columns[predicted], values[numpy.ix_(true, predicted)], states.width)

    def labels(self, state: Table) -> Array:
        return table.labels_in(state)

    def value(self, state: Table, labels: Array | None) -> Value:
        return self.of_matrix(*table.square(state, labels, self.classes), labels)

    def of_matrix(self, labels: Array, matrix: Array, every: Array | None) -> Value:
        """The score, given the labels that occur and their confusion matrix; `every` label, where more are known."""
        raise NotImplementedError


class Accuracy(Counts):
    """The share of rows whose class is predicted."""

    def of_matrix(self, labels: Array, matrix: Array, every: Array | None) -> float:
        return _over(float(numpy.trace(matrix)), float(matrix.sum()))


class BalancedAccuracy(Counts):
    """The mean of the recalls of all true classes."""

    def of_matrix(self, labels: Array, matrix: Array, every: Array | None) -> float:
        rows = matrix.sum(axis=1)
        recalls = numpy.diag(matrix)[rows > 0] / rows[rows > 0]
        return float(recalls.mean()) if len(recalls) else float("nan")


class Confusion(Counts):
    """The confusion matrix: a row for each true label, a column for each predicted one, both sorted."""

    def of_matrix(self, labels: Array, matrix: Array, every: Array | None) -> Array:
        whole = matrix.astype(numpy.int64)
        return whole if (whole == matrix).all() else matrix

    def axes(self, state: Table, labels: Array | None) -> Array:
        return table.square(state, labels, self.classes)[0]

    def empty(self) -> Array:
        return numpy.zeros((0, 0), dtype=numpy.int64)


class Shares(Counts):
    """Precision, recall or F1, of the positive class or averaged over classes."""

    def __init__(self, name: str, share: Share, average: Average, classes: Array | None = None) -> None:
        super().__init__(name, classes)
        self.share = share
        self.average = average

    def empty(self) -> Value:
        return {} if self.average == "per_class" else float("nan")

    def refuse(self, state: Table) -> str | None:
        known = union_of(state, self.classes)
        if self.average == "binary" and len(known) > 2:
            return (
                f"{self.name} is for two classes, and there are {len(known)} labels: {shown(known)}; use "
                f"{self.share}_macro, {self.share}_micro, {self.share}_weighted or {self.share}_per_class"
            )
        return None

    def value(self, state: Table, labels: Array | None) -> Value:
        reason = self.refuse(state)
        if reason is not None:
            raise BadCall(reason)
        return super().value(state, labels)

    def of_matrix(self, labels: Array, matrix: Array, every: Array | None) -> Value:
        hits, true, predicted = numpy.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
        if self.average == "micro":
            return float(self._of(hits.sum(keepdims=True), true.sum(keepdims=True), predicted.sum(keepdims=True))[0])
        values = self._of(hits, true, predicted)
        if self.average == "per_class":
            return dict(zip(labels.tolist(), values.tolist(), strict=True))
        if self.average == "binary":
            positive = positive_of(labels if every is None else every, self.classes)
            found = values[labels == positive] if positive is not None else numpy.full(1, numpy.nan)
            return float(found[0]) if len(found) else 0.0
        weight = true if self.average == "weighted" and true.sum() > 0 else None
        return float(numpy.average(values, weights=weight))

    def _of(self, hits: Array, true: Array, predicted: Array) -> Array:
        over = {"precision": predicted, "recall": true, "f1": true + predicted}[self.share]
        top = 2 * hits if self.share == "f1" else hits
        values: Array = numpy.divide(top, over, out=numpy.zeros(len(top)), where=over != 0)
        return values


def union_of(state: Table, classes: Array | None) -> Array:
    """The labels of a problem, as far as a state shows them; all columns of scores count."""
    if classes is not None:
        return classes
    if state.width is not None and state.width > max(2, len(state.labels)):
        return numpy.arange(state.width)
    return table.labels_in(state)


def _over(top: float, bottom: float) -> float:
    return top / bottom if bottom else float("nan")
