"""What a strategy wants of a framework: one file for each framework, the same contract for all.

A learner is one copy of the model, in one worker. A step on a global batch is divided: every worker computes the
gradient of its share of the rows, the vectors of all workers are added up, and every worker applies the same sum. So
all copies stay equal, and equal to what one process would have trained.

The vector is one run of float32: the gradient; then what the model learns without a gradient, moving averages and
counters by their growth, so that what does not change stays what it is to the bit; then what the share adds to the sums
of loss and metrics. All of them add up over workers, because everything is multiplied by `share`, the worker's part of
the global batch, or is a sum over rows. A learner that has a device takes a tensor of PyTorch as well as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy

from tenfold.fuse.columns import Columns
from tenfold.fuse.result import Weights
from tenfold.training.adding import Vector


class Learner(Protocol):
    """One copy of a model in training."""

    size: int
    """Length of the vector."""
    gradient_size: int
    """How much of its beginning is the gradient: what is clipped."""
    sums_size: int
    """How much of its end is sums of loss and metrics."""
    optimizer: Any
    """The framework's own."""
    weights_size: int
    """Length of all weights in one run."""
    takes_devices: bool
    """Whether one process may divide a batch among several devices of its own."""
    device: Any
    """Where PyTorch has the weights; None with other frameworks."""

    def check_shares(self) -> None:
        """Before training, where batches are divided: refuse a loss that does not add up over shares."""

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: Vector) -> None:
        """Write this share's vector. The weights stay as they are. No rows at all give zeros."""

    def whole(self, total: Vector) -> Vector:
        """The sum of all workers' vectors with the whole batch's gradient in it: where a loss divides by what no share
        knows, it is divided now, in a copy.
        """

    def apply(self, total: Vector) -> float:
        """Take one step of the optimizer with such a vector, and note its loss and metrics.

        Returns the loss of that global batch.
        """

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        """The same as `gradient` and `apply` for each whole batch, as fast as one process can; their losses."""

    def count(self, updates: int) -> None:
        """All workers together have taken so many steps: a learning rate that depends on them does so from now on."""

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        """From these weights, take one step of this copy's own optimizer on these rows.

        Weights are one run of `weights_size` float32: all that is trained (as many as are in the gradient), and all
        that is learned without one.
        The new ones are written, and after them this batch's sums of loss and metrics, as at the end of a vector.
        """

    def score(self, block: Columns, rows: numpy.ndarray | None, into: Vector) -> None:
        """Add these rows' part of the sums of loss and metrics, without training, to the end of a vector."""

    def begin(self) -> None:
        """Forget the sums of loss and metrics: an epoch begins."""

    def logs(self, total: Vector | None = None) -> dict[str, float]:
        """Loss and metrics of what was applied since `begin`; or those of a vector that `score` has written."""

    def close(self, logs: dict[str, float]) -> None:
        """An epoch is over, and this is what is known of it: learning rates that depend on epochs change."""

    def state(self) -> list[Any]:
        """Everything that training goes on from: weights, optimizer, random numbers, sums of this epoch."""

    def put(self, state: list[Any]) -> None:
        """Go on from a `state`."""

    def copied(self) -> list[Any]:
        """What is equal in equal copies before the first step: arrays and plain values, in lists and dicts."""

    def weights(self) -> Weights:
        """As results have them."""

    def write_weights(self, into: numpy.ndarray) -> None:
        """All weights in one run, as `advance` takes them."""

    def read_weights(self, run: numpy.ndarray) -> None:
        """Have these weights from now on."""
