"""Many models, one program: what a `Fit` is, and how a worker trains a group of them.

    Fit.together(members) ──> building: each model built with its own seed
                              keras, torch: which of them are the same program
                              group: epochs, histories, stopping, checkpoints   ──> FitResults
                              xla, torch: the compiled step, several models at a time
    Fit(params)           ──> plain: the framework's own loop, one model         ──> FitResult

A way of training is a `Workshop`; `group` knows no framework. What a workshop cannot do it declines, with the reason,
and the model is trained alone, in the caller's backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy

from tenfold.fuse.columns import Columns
from tenfold.fuse.outputs import Outputs
from tenfold.fuse.portrait import Portrait
from tenfold.fuse.result import Weights
from tenfold.fuse.stopping import EarlyStopping


class Stack(Protocol):
    """Models of one program, in training; used by one thread. Arrays have a row for each model, in a fixed order.

    An epoch is `begin`, `train` for each block of data, `logs`; scoring is `begin`, `test`, `logs`; then `close`. What
    one model does, a NaN included, never changes another's numbers.
    """

    def __len__(self) -> int: ...

    def begin(self) -> None:
        """Metrics start anew."""

    def train(self, block: Columns, order: numpy.ndarray) -> None:
        """One pass over rows of the block, in each model's own order."""

    def test(self, block: Columns, rows: numpy.ndarray | None) -> None:
        """Score the block, or each model's own rows of it."""

    def logs(self) -> dict[str, numpy.ndarray]:
        """Loss and metrics since `begin`."""

    def close(self, logs: dict[str, numpy.ndarray]) -> None:
        """An epoch is over, and this is what is known of it: learning rates that depend on epochs change."""

    def outputs(self, block: Columns, rows: numpy.ndarray | None, done: Sequence[int], *, best: bool) -> list[Outputs]:
        """What these models give for the block, or their own rows of it, with the weights of now or the remembered.

        They are not trained any more afterwards. `rows` has a row for every model, whether it is done or not.
        """

    def remember(self, better: Sequence[int]) -> None:
        """The weights of these models are their best so far."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these models only."""

    def weights(self, row: int, *, best: bool) -> Weights:
        """Of one model: those of now, or the remembered ones."""

    def snapshot(self) -> list[numpy.ndarray]:
        """Everything that training goes on from."""

    def restore(self, arrays: Sequence[numpy.ndarray]) -> None:
        """Go on from a snapshot."""


class Workshop(Protocol):
    """Makes stacks of the models of one framework."""

    def take(self, built: Any) -> Any:
        """Look at what `build` returned, and keep what is needed of it; raises `Declined` with the reason."""

    def same(self, models: Sequence[Any]) -> list[list[int]]:
        """Which of these models are one program."""

    def stopping(self, model: Any) -> EarlyStopping | None:
        """By which rule a model is stopped early; raises `BadCall` where it does not have what is watched."""

    def stack(self, models: Sequence[Any], rows: int, chunk: int | None) -> tuple[Stack, int, str]:
        """The stack of one program's models, how many it takes at a time, and why, in words.

        `rows` is how many each is trained on; `chunk` repeats what was chosen before, so that a run that is continued
        gives the same numbers.
        """

    def nbytes(self, model: Any) -> int:
        """What a model needs while a step of it is taken: its variables, and what is computed with them."""

    def portrait(self, model: Any) -> Portrait:
        """What a model looks like, to say why two are not one program."""
