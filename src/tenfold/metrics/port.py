"""What a metric is: `Metric` for everybody, and `Family` for what `Scoring` asks of those here and of those it adapts.

A metric looks at blocks of rows, one after another or in different processes. Each block gives a state, states merge,
and the last one gives the result. So the result must not depend on how rows were cut into blocks, nor on the order of
merging.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy
from numpy.typing import NDArray

from tenfold.errors import BadCall

Array = NDArray[Any]
Reads = Literal["predictions", "scores", "probabilities"]
"""What a metric looks at: what a model says, or how sure it is of each class; scores may be of any size."""
Value = Any
"""What a metric gives: a float, an array, or a dict of numbers or arrays."""


@runtime_checkable
class Metric(Protocol):
    """The contract, for people's own metrics too.

    A state can be pickled and is small beside its rows. `merge` is associative, and may change `a` and return it.
    `update` is called in workers, `merge` and `result` in the caller. A metric that knows no weights leaves `weight`
    out of its `update`; then it has no bootstrap intervals.
    """

    def init(self) -> Any:
        """The state before any row."""

    def update(self, state: Any, truth: Array, predicted: Array, weight: Array | None) -> Any:
        """The state with the rows of one block added. `weight` has a number for each row, or is None: all are 1."""

    def merge(self, a: Any, b: Any) -> Any:
        """The state of the rows of both."""

    def result(self, state: Any) -> Value:
        """The value for all rows that the state has seen."""


@dataclass(frozen=True, slots=True)
class Readings:
    """One block as a metric reads it: checked once, then counted as often as there are groups and replicates."""

    columns: tuple[Array, ...]
    """Arrays with a place for each row."""
    known: Any = None
    """What belongs to the block as a whole, such as the labels that codes stand for."""

    def take(self, rows: Array | slice) -> Readings:
        """Some of the rows, by their places."""
        return Readings(tuple(column[rows] for column in self.columns), self.known)


class Family(ABC):
    """A metric of this room, or somebody else's adapted to it. The state before any row is None."""

    name: str
    """What its score is called."""
    weighs: bool = True
    """Whether rows can have weights."""
    reads: Reads = "predictions"
    """What it is to be given of an estimator that has several methods."""
    sampled: bool = True
    """Whether a bootstrap needs states of replicates; not where the state keeps rows apart, or no interval is given."""

    @property
    @abstractmethod
    def kin(self) -> Hashable:
        """Metrics with an equal `kin` have the same state, which is then made once for all of them."""

    @abstractmethod
    def read(self, truth: Any, predicted: Any, first: int = 0) -> Readings:
        """Check one block. `first` is the number of its first row, for messages."""

    @abstractmethod
    def gather(self, readings: Readings, weight: Array | None) -> Any:
        """The state of these rows alone."""

    @abstractmethod
    def join(self, a: Any, b: Any) -> Any:
        """`merge`, where both have seen rows."""

    @abstractmethod
    def value(self, state: Any, labels: Array | None) -> Value:
        """The result of a state that has seen rows. `labels` are all that there are, where the state is of a part."""

    def labels(self, state: Any) -> Array | None:
        """The labels that the state has seen, where the metric is about classes."""
        return None

    def replicate(self, readings: Readings, times: Array) -> Any:
        """The states of all replicates of a bootstrap. `times`: how often a row is in one, (rows, replicates).

        A row that was not drawn is not there, and nor may be its label. Here this is a list of states; a metric whose
        states are sums makes one state of arrays, with replicates along their last axis, which is much faster.
        """
        kept = [numpy.flatnonzero(column) for column in times.T]
        return [self.gather(readings.take(rows), times[rows, place]) for place, rows in enumerate(kept)]

    def join_replicates(self, a: Any, b: Any) -> Any:
        """The same of the rows of both."""
        return [self.merge(*pair) for pair in zip(a, b, strict=True)]

    def of_replicate(self, states: Any, place: int) -> Any:
        """The state of one of them."""
        return states[place]

    def axes(self, state: Any, labels: Array | None) -> Array | None:
        """The labels of the rows and columns of its value, where that is a matrix."""
        return None

    def for_bootstrap(self) -> Self:
        """The same metric, with a state that replicates can be made from, where that beats a state for each."""
        return self

    def refuse(self, state: Any) -> str | None:
        """Why these rows can have no result, where that is known before the last of them."""
        return None

    def bound(self, state: Any, labels: Array | None) -> float | None:
        """How far the value may be from the exact one; None where it is exact."""
        return None

    def empty(self) -> Value:
        """The result without any row."""
        return float("nan")

    def init(self) -> Any:
        return None

    def update(self, state: Any, truth: Any, predicted: Any, weight: Any = None) -> Any:
        readings = self.read(truth, predicted)
        return self.merge(state, self.gather(readings, weights(weight, len(readings.columns[0]))))

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return self.join(a, b)

    def result(self, state: Any, labels: Array | None = None) -> Value:
        return self.empty() if state is None else self.value(state, labels)


def weights(weight: Any, rows: int) -> Array | None:
    """The weights of a block, checked."""
    if weight is None:
        return None
    array = numpy.asarray(weight, dtype=numpy.float64)
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.shape != (rows,):
        raise BadCall(f"weight has the shape {array.shape}: expected one number for each of {rows} rows")
    if not (numpy.isfinite(array).all() and (array >= 0).all()):
        raise BadCall("weight holds numbers that are negative or not finite: expected numbers from 0")
    return array
