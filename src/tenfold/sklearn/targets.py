"""y as numbers: what the labels of a classifier stand for, and how much each row counts.

Weights count relative to one another, as in scikit-learn: they are scaled so that their mean is 1, and a row with
weight 2 is as good as two of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from sklearn.utils.class_weight import compute_class_weight

from tenfold.errors import BadCall


@dataclass(frozen=True, slots=True)
class Answers:
    """What is to be learned."""

    y: numpy.ndarray
    """Numbers of classes, or numbers to predict; a row for each row of x."""
    weight: numpy.ndarray | None
    """How much each row counts."""
    classes: numpy.ndarray | None = None
    """The labels, in order; None for numbers to predict."""

    @property
    def count(self) -> int | None:
        """How many classes there are."""
        return None if self.classes is None else len(self.classes)

    @property
    def columns(self) -> int:
        """How many numbers to predict."""
        return 1 if self.classes is not None or self.y.ndim == 1 else self.y.shape[1]

    def encoded(self, y: numpy.ndarray) -> numpy.ndarray:
        """Other rows in the same way."""
        return y if self.classes is None else encoded(y, self.classes)


def encoded(y: numpy.ndarray, classes: numpy.ndarray) -> numpy.ndarray:
    """Numbers of labels; refuses those that nobody has heard of."""
    found = numpy.searchsorted(classes, y).clip(0, len(classes) - 1)
    unknown = classes[found] != y
    if unknown.any():
        raise BadCall(f"y has labels that are not among the classes {classes}: {numpy.unique(y[unknown])}")
    return found


def of_classes(
    y: numpy.ndarray, weight: numpy.ndarray | None, class_weight: Any, rows: numpy.ndarray | None
) -> Answers:
    """Of the rows that a model is trained on; others, whose labels it never sees, are number 0."""
    own = y if rows is None else y[rows]
    classes = numpy.unique(own)
    counting = own if weight is None else own[(weight if rows is None else weight[rows]) > 0]
    if len(numpy.unique(counting)) < 2:
        raise BadCall(f"y has only one class that counts, {numpy.unique(counting)}; a classifier needs two at least")
    numbers = numpy.searchsorted(classes, y).clip(0, len(classes) - 1)
    numbers[classes[numbers] != y] = 0
    found = weighted(numbers, weight, class_weight, classes, own)
    return Answers(numbers, relative(found, rows), classes)


def weighted(
    numbers: numpy.ndarray, weight: numpy.ndarray | None, class_weight: Any, classes: numpy.ndarray, own: numpy.ndarray
) -> numpy.ndarray | None:
    """How much each row counts, by its class, too."""
    if class_weight is None:
        return weight
    by_class = compute_class_weight(class_weight, classes=classes, y=own)[numbers]
    found: numpy.ndarray = by_class if weight is None else by_class * weight
    return found


def relative(weight: numpy.ndarray | None, rows: numpy.ndarray | None = None) -> numpy.ndarray | None:
    """With a mean of 1 over the rows that a model is trained on."""
    if weight is None:
        return None
    found: numpy.ndarray = weight / (weight if rows is None else weight[rows]).mean()
    return found
