"""What a search has trained for an estimator before its `fit` is called, and whether that is what `fit` would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.sklearn.trained import Trained
from tenfold.sklearn.training import Training


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A fit that has been made elsewhere."""

    training: Training
    """What was trained."""
    trained: Trained | BaseException
    """What came of it."""
    seconds: float
    """Its share of the time."""
    params: Mapping[str, Any]
    """The estimator's parameters at that time."""
    y: numpy.ndarray
    """Labels or numbers, as the caller has them, of all rows."""
    rows: numpy.ndarray
    """The rows that it was trained on."""

    def answers(self, params: Mapping[str, Any], x: numpy.ndarray, y: numpy.ndarray) -> bool:
        """Whether this is what a `fit` on these rows, with these parameters, would train."""
        whole = self.training.data[0]
        return (
            params.keys() == self.params.keys()
            and all(_same(params[name], value) for name, value in self.params.items())
            and x.shape == (len(self.rows), *whole.shape[1:])
            and numpy.array_equal(y, self.y[self.rows])
            and numpy.array_equal(x, whole[self.rows])
        )

    def open(self) -> Trained:
        """The trained model; raises what its training raised."""
        if isinstance(self.trained, BaseException):
            raise self.trained
        return self.trained


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # a comparison without a single answer: then it is trained anew
        return False
