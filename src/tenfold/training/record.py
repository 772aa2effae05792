"""What is kept of a training between epochs, however it is done: the history, and the best weights where they count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenfold.fuse.result import FitResult, Weights
from tenfold.fuse.stopping import EarlyStopping, Patience


@dataclass(slots=True)
class Record:
    """Of one model."""

    watch: Patience | None
    """Of early stopping."""
    history: dict[str, list[float]] = field(default_factory=dict)
    """One number an epoch."""
    best: Weights | None = None
    """Weights of the best epoch, where they are to be restored."""

    @classmethod
    def fresh(cls, stopping: EarlyStopping | None) -> Record:
        """Before the first epoch."""
        return cls(None if stopping is None else Patience(stopping))

    def add(self, epoch: int, logs: dict[str, float], weights: Callable[[], Weights]) -> None:
        """After an epoch."""
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)
        if self.watch is not None and self.watch.look(epoch, logs) and self.watch.rule.restore_best:
            self.best = weights()

    @property
    def stopped(self) -> bool:
        """It has not improved for long enough."""
        return self.watch is not None and self.watch.stopped

    def result(self, params: dict[str, Any], weights: Callable[[], Weights], how: str) -> FitResult:
        """In the end; `weights` are those of now."""
        if self.best is None or self.watch is None:
            return FitResult(params, self.history, weights(), how)
        return FitResult(params, self.history, self.best, how, self.watch.best_epoch)
