"""A sum for each pair of a true label and a predicted class: the state of all metrics that are about classes.

The rows are the labels that were seen, the columns are predicted labels, or numbers of columns of scores. Which label a
column of scores is for is known only when all labels are, so a table keeps what each column would give.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.labels import labels_of, union
from tenfold.metrics.port import Array


@dataclass(frozen=True, slots=True)
class Table:
    """Sums by label and column."""

    labels: Array
    """The true labels that were seen, sorted."""
    columns: Array
    """The predicted labels, or numbers of columns, sorted."""
    values: Array
    """(labels, columns), float64; or (labels, columns, sums)."""
    width: int | None
    """How many columns were predicted; None where labels were."""


def merged(a: Table, b: Table) -> Table:
    """The sums of both."""
    if a.width != b.width:
        words = [f"{width} columns of scores" if width else "labels" for width in (a.width, b.width)]
        raise BadCall(f"predicted has {words[0]} in some blocks and {words[1]} in others: expected all to be alike")
    labels, columns = union(a.labels, b.labels), union(a.columns, b.columns)
    values = numpy.zeros((len(labels), len(columns), *a.values.shape[2:]))
    for part in (a, b):
        places = numpy.searchsorted(labels, part.labels), numpy.searchsorted(columns, part.columns)
        values[numpy.ix_(*places)] += part.values
    return Table(labels, columns, values, a.width)


def summed(codes: Array, values: Array) -> tuple[Array, Array]:
    """The codes that occur, sorted, and the sum of the rows of `values` for each."""
    order = numpy.argsort(codes, kind="stable")
    starts = numpy.flatnonzero(numpy.diff(codes[order], prepend=-1))
    return codes[order][starts], numpy.add.reduceat(values[order], starts, axis=0)


def labels_in(table: Table) -> Array:
    """All labels that were seen, true or predicted."""
    return table.labels if table.width is not None else union(table.labels, table.columns)


def square(table: Table, labels: Array | None, classes: Array | None) -> tuple[Array, Array]:
    """The labels that occur, and their confusion matrix: a row for each true label, a column for each predicted."""
    predicted = table.columns
    if table.width is not None:
        predicted = labels_of(table.labels if labels is None else labels, table.width, classes)[table.columns]
    every = union(table.labels, numpy.sort(predicted))
    matrix = numpy.zeros((len(every), len(every)))
    places = numpy.searchsorted(every, table.labels), numpy.searchsorted(every, predicted)
    matrix[numpy.ix_(*places)] = table.values
    return every, matrix
