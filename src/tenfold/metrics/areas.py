"""Areas under curves, summed while sorted scores come by: ROC AUC, average precision, and what rounding does to them.

Every sum has a place for each replicate, so that a whole bootstrap is one pass over the scores.
"""

from __future__ import annotations

import numpy

from tenfold.metrics.port import Array


class Areas:
    """The sums over the scores so far, from the greatest down."""

    def __init__(self, replicates: int) -> None:
        self.found = numpy.zeros(replicates)
        """The weight of the positives so far."""
        self.false = numpy.zeros(replicates)
        """The weight of the negatives so far."""
        self._pairs = numpy.zeros(replicates)
        self._precisions = numpy.zeros(replicates)
        self._ties = numpy.zeros(replicates)
        self._least = numpy.zeros(replicates)
        self._most = numpy.zeros(replicates)
        self._open: tuple[float, Array, Array] | None = None

    def add(self, depth: Array, positive: Array, negative: Array) -> None:
        """Scores in order, with the weights of positives and negatives: (scores, replicates)."""
        if self._open is not None:
            last, found, false = self._open
            depth = numpy.concatenate([[last], depth])
            positive, negative = numpy.concatenate([found[None], positive]), numpy.concatenate([false[None], negative])
        starts = numpy.flatnonzero(numpy.diff(depth, prepend=numpy.nan) != 0)
        found, false = (numpy.add.reduceat(each, starts, axis=0) for each in (positive, negative))
        # More of the last score may be to come.
        self._open = depth[-1], found[-1], false[-1]
        self._count(found[:-1], false[:-1])

    def close(self) -> None:
        """There are no more."""
        if self._open is not None:
            _, found, false = self._open
            self._open = None
            self._count(found[None], false[None])

    def roc_auc(self) -> Array:
        """The share of pairs of a positive and a negative that are in order; equal ones count half."""
        return _over(self._pairs, self.found * self.false)

    def average_precision(self) -> Array:
        """The mean over positives of the precision down to each; 0 where there are none, as in scikit-learn."""
        area = _over(self._precisions, self.found)
        return numpy.where((self.found == 0) & (self.false > 0), 0.0, area)

    def roc_auc_bound(self) -> Array:
        """How far that may be off, had equal scores been in some order: they count between 0 and 1 instead of half."""
        return _over(self._ties / 2, self.found * self.false)

    def average_precision_bound(self) -> Array:
        """The greatest distance to what any order of equal scores could give."""
        below, above = self._precisions - self._least, self._most - self._precisions
        return numpy.where(self.found == 0, 0.0, _over(numpy.maximum(below, above), self.found))

    def _count(self, found: Array, false: Array) -> None:
        """Whole scores: each row of these is one score."""
        after, wrong = self.found + numpy.cumsum(found, axis=0), self.false + numpy.cumsum(false, axis=0)
        self._pairs += (false * (after - found / 2)).sum(axis=0)
        self._precisions += (found * _over(after, after + wrong, 0.0)).sum(axis=0)
        self._ties += (found * false).sum(axis=0)
        # In no order is a precision above after/(after + negatives before). In the worst all negatives come first, and
        # the sum over positives is at least the integral of (before + x)/(before + x + wrong) over x from 0 to found.
        self._most += (found * _over(after, after + wrong - false, 0.0)).sum(axis=0)
        start, end = after - found + wrong, after + wrong
        with numpy.errstate(divide="ignore", invalid="ignore"):
            lost = numpy.where(wrong > 0, wrong * numpy.log(end / start), 0.0)
        self._least += (found - lost).sum(axis=0)
        if len(found):
            self.found, self.false = after[-1], wrong[-1]


def _over(top: Array, bottom: Array, empty: float = numpy.nan) -> Array:
    shares: Array = numpy.divide(top, bottom, out=numpy.full(numpy.shape(top), empty), where=bottom != 0)
    return shares
