"""What `tenfold.train` returns: the model, its history, and how it went."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenfold.fuse.result import FitResult, Weights


@dataclass(frozen=True, slots=True)
class Helped:
    """What a worker returns that was not the first."""

    spent: Mapping[str, float]
    """As `Trained` has it."""


@dataclass(frozen=True)
class Trained:
    """One trained model."""

    result: FitResult
    """What `Fit` gives for one model."""
    updates: int
    """How often its weights were changed."""
    workers: int
    """How many were there in the end."""
    plan: str = ""
    """Where, and why so."""
    events: tuple[str, ...] = ()
    """Who came and who was lost, in words."""
    seconds: float = 0.0
    """From the first worker's start to the end."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the first worker: startup (until the first step was taken), input, compute, communication, waiting."""

    @functools.cached_property
    def model(self) -> Any:
        """A Keras model in this process's backend, or a module of PyTorch, with the trained weights."""
        return self.result.model()

    @property
    def history(self) -> dict[str, list[float]]:
        """Name -> one number an epoch."""
        return self.result.history

    @property
    def params(self) -> dict[str, Any]:
        """What it was built with."""
        return self.result.params

    @property
    def weights(self) -> Weights:
        """Of Keras what `get_weights` gives; of PyTorch a `state_dict` of arrays."""
        return self.result.weights

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it: `.keras`, `.weights.h5`, `.pt` or `.npz`."""
        return self.result.save(path)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.4g}" for name, value in self.result.final.items())
        return f"<Trained by {self.workers} in {self.seconds:.1f} s: {self.result.epochs} epochs, {numbers}>"
