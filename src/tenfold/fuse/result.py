"""What became of one model: its history, its weights, and the model itself, rebuilt where it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.work.leg import Why

Weights = list[numpy.ndarray] | dict[str, numpy.ndarray]
"""Of Keras what `model.get_weights()` gives; of PyTorch what `module.state_dict()` does, as arrays."""

OF_TORCH = (".pt", ".pth", ".npz")
OF_KERAS = (".keras", ".weights.h5", ".npz")
"""How names of files end that a model can be written to."""


def name_fault(name: str, accepted: tuple[str, ...]) -> str:
    """What is wrong with a file's name, in words; empty where nothing is."""
    if name.endswith(accepted):
        return ""
    return f"expected a name that ends with {', '.join(accepted[:-1])} or {accepted[-1]}"


@dataclass(slots=True)
class FitResult:
    """One trained model."""

    params: dict[str, Any]
    """What it was built with, its seed included."""
    history: dict[str, list[float]]
    """Name -> one number an epoch: loss, metrics, and the same with val_ before it."""
    weights: Weights
    """The weights at the end, or of the best epoch where early stopping restores them. In a study, those of the last
    leg of a trial; of its earlier ones, they are not kept.
    """
    how: str
    """How it was trained, and why not otherwise."""
    best_epoch: int | None = None
    """The epoch whose weights these are, from 0, where early stopping watched."""
    ended: Why = "finished"
    """Whether it came to its end, or was paused or pruned by a study."""
    saved: Any = field(default=None, repr=False)
    """What its training goes on from, where it was paused."""
    build: Callable[..., Any] | None = field(default=None, repr=False)
    """The function that built it; it does not travel with the result."""
    outputs: Any = field(default=None, repr=False)
    """What these weights give for the rows that it is scored on, where `Fit(outputs=True)` asked for that."""
    example: Any = field(default=None, repr=False)
    """A row that goes into it, for a Keras model that knows its inputs only from data; it does not travel either."""

    @property
    def epochs(self) -> int:
        """How many it was trained for."""
        return len(self.history["loss"])

    @property
    def final(self) -> dict[str, float]:
        """The last of each number in the history; of the best epoch where its weights were kept."""
        at = -1 if self.best_epoch is None else self.best_epoch
        return {name: values[at] for name, values in self.history.items()}

    def __tenfold_row__(self) -> dict[str, Any]:
        """What `Results.frame` shows of it."""
        return {**self.final, "epochs": self.epochs, "how": self.how.partition(":")[0]}

    def model(self, build: Callable[..., Any] | None = None) -> Any:
        """Build it again here, with the trained weights: a Keras model in this process's backend, or a module.

        `build` is needed only for a result that was read without its `Fit`.
        """
        build = build or self.build
        self._check_kept()
        if build is None:
            raise BadCall("model(): the result was read without its Fit; give the function that builds the model")
        from tenfold.fuse.building import construct
        from tenfold.work import seeds

        with seeds.restored():
            built = construct(build, self.params)
        if isinstance(self.weights, dict):
            import torch

            module = built[0]
            module.load_state_dict({name: torch.from_numpy(numpy.array(a)) for name, a in self.weights.items()})
            return module
        if not built.built:
            if self.example is None:
                raise BadCall(
                    "model(): build makes a model without an Input, whose weights come with its data, and "
                    "the result was read without its Fit; begin the model with keras.Input(shape)"
                )
            built(self.example)
        built.set_weights(self.weights)
        return built

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it: `.keras` (all of the model), `.weights.h5`, `.pt` (a state_dict) or `.npz` (weights alone).

        The folder is made where there is none.
        """
        target = Path(path)
        name = target.name
        self._check_kept()
        if fault := name_fault(name, OF_TORCH if isinstance(self.weights, dict) else OF_KERAS):
            raise BadCall(f"save({str(path)!r}): {fault}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".npz"):
            named = (
                self.weights if isinstance(self.weights, dict) else {f"{n:03d}": a for n, a in enumerate(self.weights)}
            )
            numpy.savez(target, allow_pickle=False, **named)
        elif name.endswith(".keras"):
            model = self.model()
            model.optimizer.build(model.trainable_variables)  # else Keras warns when the file is read
            model.save(target)
        elif name.endswith(".weights.h5"):
            self.model().save_weights(target)
        else:
            import torch

            torch.save(self.model().state_dict(), target)
        return target

    def _check_kept(self) -> None:
        if not self.weights:
            raise BadCall("the weights of this leg were not kept: its trial has gone on, take those of study.trials")

    def __getstate__(self) -> tuple[Any, ...]:
        later = self.outputs, self.ended, self.saved
        return self.params, self.history, self.weights, self.how, self.best_epoch, *later

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.params, self.history, self.weights, self.how, self.best_epoch, *later = state
        self.outputs, self.ended, self.saved = later or (None, "finished", None)  # results of the first versions
        self.build = self.example = None

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.4g}" for name, value in self.final.items())
        return f"<FitResult {self.params}: {self.epochs} epochs, {numbers}>"
