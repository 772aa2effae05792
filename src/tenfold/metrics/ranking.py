"""ROC AUC and average precision, exact: every score is kept, sorted, and shed to files when there are many.

Two classes: scores of any size, (n,), (n, 1) or (n, 2). More: (n, classes), each class against the rest, and the mean
over classes, which is scikit-learn's multi_class="ovr". With `approximate`, scores are rounded first (histograms.py),
and a bound is given.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable
from typing import Any, Literal, NamedTuple, Self

import numpy

from tenfold.errors import BadCall
from tenfold.metrics import runs
from tenfold.metrics.areas import Areas
from tenfold.metrics.histograms import rounded
from tenfold.metrics.labels import columns_of, positive_of, shown, union
from tenfold.metrics.port import Array, Family, Readings, Reads, Value
from tenfold.metrics.reading import same_length, scores, truth_labels
from tenfold.metrics.resampling import drawn
from tenfold.metrics.runs import Pile, Run

Curve = Literal["roc_auc", "average_precision"]

CELLS = 1 << 21
"""How many numbers are worked on at once: scores times replicates."""


class Ranked(NamedTuple):
    """The state."""

    piles: tuple[Pile, ...]
    """The scores of each column; one pile for two classes."""
    labels: Array
    """The labels that were seen, sorted."""


class Ranking(Family):
    """The area under a curve."""

    reads: Reads = "scores"

    def __init__(self, curve: Curve, classes: Array | None = None, approximate: bool = False) -> None:
        self.name = curve
        self.curve = curve
        self.classes = classes
        self.approximate = approximate

    @property
    def kin(self) -> Hashable:
        classes = None if self.classes is None else tuple(self.classes.tolist())
        return "ranking", self.approximate, self.sampled, classes

    def for_bootstrap(self) -> Self:
        """The same with rows kept apart; but rounded scores are so few that each replicate has its own."""
        other = copy.copy(self)
        other.sampled = self.approximate
        return other

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true, given = truth_labels(truth, first), scores(predicted, first)
        same_length(true, given)
        given = given[:, -1:] if given.shape[1] == 2 else given
        given = rounded(given) if self.approximate else given
        labels, codes = numpy.unique(true, return_inverse=True)
        return Readings((codes, given, numpy.arange(first, first + len(true))), labels)

    def gather(self, readings: Readings, weight: Array | None) -> Ranked | None:
        codes, given, rows = readings.columns
        if len(codes) == 0:
            return None
        seen, codes = numpy.unique(codes, return_inverse=True)
        labels = readings.known[seen]
        weight = numpy.ones(len(codes)) if weight is None else weight
        kept = None if self.sampled else rows
        piles = tuple(Pile((runs.run_of(column, codes, weight, kept, labels),)) for column in given.T)
        return Ranked(piles, labels)

    def join(self, a: Ranked, b: Ranked) -> Ranked:
        if len(a.piles) != len(b.piles):
            raise BadCall(
                f"predicted has {len(a.piles)} columns in some blocks and {len(b.piles)} in others: expected as many"
            )
        piles = tuple(runs.joined(*pair) for pair in zip(a.piles, b.piles, strict=True))
        return Ranked(piles, union(a.labels, b.labels))

    def held(self, state: Ranked) -> int:
        """How many entries of the state are in memory."""
        return sum(pile.held for pile in state.piles)

    def shed(self, state: Ranked, folder: str | os.PathLike[str]) -> Ranked:
        """The same state, with its entries in files."""
        return Ranked(tuple(runs.shed(pile, folder) for pile in state.piles), state.labels)

    def remove(self, state: Ranked) -> None:
        """Delete the files of a state that is not needed any more."""
        runs.removed(state.piles)

    def labels(self, state: Ranked) -> Array:
        return state.labels

    def refuse(self, state: Ranked) -> str | None:
        if len(state.piles) == 1 and len(state.labels) > 2:
            labels = state.labels
            return (
                f"{self.name}: predicted has one score a row, and there are {len(labels)} labels: {shown(labels)}; "
                f"predict a column for each"
            )
        return None

    def value(self, state: Ranked, labels: Array | None) -> Value:
        every = state.labels if labels is None else labels
        if len(state.piles) == 1 and len(every) < 2 and positive_of(every, self.classes) is None:
            return float("nan")  # one label, and nobody knows whether it is the positive one
        return float(numpy.mean([getattr(area, self.curve)()[0] for area in self._areas(state, labels, None)]))

    def bound(self, state: Ranked | None, labels: Array | None) -> float | None:
        if not self.approximate or state is None:
            return None
        areas = self._areas(state, labels, None)
        return float(numpy.mean([getattr(area, f"{self.curve}_bound")()[0] for area in areas]))

    def replicates(self, state: Ranked, labels: Array | None, keys: Array) -> list[float]:
        """The value in each replicate of a bootstrap."""
        values: list[float] = []
        for start in range(0, len(keys), 64):  # so that a window of scores stays long enough to be worth its reading
            areas = self._areas(state, labels, keys[start : start + 64])
            values += numpy.mean([getattr(area, self.curve)() for area in areas], axis=0).tolist()
        return values

    def _areas(self, state: Ranked, labels: Array | None, keys: Array | None) -> list[Areas]:
        reason = self.refuse(state)
        if reason is not None:
            raise BadCall(reason)
        every = state.labels if labels is None else labels
        if len(state.piles) == 1:
            return [_area(state.piles[0], positive_of(every, self.classes), keys)]
        width = len(state.piles)
        columns = columns_of(every, width, self.classes)
        owner: dict[int, Any] = {int(column): label for column, label in zip(columns, every, strict=True)}
        # A column whose label never occurred has no positives: no area under its ROC curve, as in scikit-learn.
        return [_area(pile, owner.get(column), keys) for column, pile in enumerate(state.piles)]


def _area(pile: Pile, positive: Any, keys: Array | None) -> Areas:
    areas = Areas(1 if keys is None else len(keys))
    for run in runs.chunks(pile, min(runs.WINDOW, CELLS // len(areas.found))):
        weight = _weights(run, keys)
        is_positive = _is(run, positive)[run.code][:, None]
        areas.add(run.depth, weight * is_positive, weight * ~is_positive)
    areas.close()
    return areas


def _is(run: Run, label: Any) -> Array:
    if label is None:
        return numpy.zeros(len(run.labels), dtype=bool)
    return numpy.asarray(run.labels == label)


def _weights(run: Run, keys: Array | None) -> Array:
    weight = numpy.asarray(run.weight)[:, None]
    if keys is None or run.row is None:
        return weight
    return weight * drawn(run.row[:, None], keys[None, :])
