"""What is kept of a group between epochs, so that a killed worker or call costs an epoch and not all of them.

One file for each group, in the folder that the tasks of a call share; written beside and renamed, so that it is whole
or not there. Another grouping finds its models in whichever file holds them.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import Patience

FOLDER = "fits"
BEFORE_FIRST = 1.0  # seconds of training that are not worth a file
SHARE = 0.05  # of the time that writing may take


@dataclass(frozen=True, slots=True)
class Saved:
    """One model between two epochs."""

    epoch: int
    """The next one."""
    arrays: list[numpy.ndarray]
    """Its row of the stack's snapshot."""
    history: dict[str, list[float]]
    """So far."""
    watch: Patience | None
    """Of its early stopping."""
    chunk: int
    """How many were trained at a time: to go on with the same numbers."""
    params: dict[str, Any]
    """To recognise it by."""
    kind: str = "stack"
    """Who can go on from it: a `Stack`, or the loop of one framework."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of its arrays."""
        return tuple(array.shape for array in self.arrays)

    def begun(self) -> tuple[int, dict[str, list[float]], Patience | None]:
        """The next epoch, and copies of what is written on: in a study, two models may go on from one."""
        return self.epoch, {name: list(values) for name, values in self.history.items()}, copy.copy(self.watch)

    def epochs(self) -> list[tuple[int, dict[str, float]]]:
        """What was reported after each of its epochs."""
        numbers = zip(*self.history.values(), strict=True)
        return [(epoch, dict(zip(self.history, values, strict=True))) for epoch, values in enumerate(numbers)]


class Checkpoints:
    """The file of one group."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.checkpoint"
        self._last = time.monotonic() + BEFORE_FIRST
        self._cost = 0.0

    def due(self) -> bool:
        """Whether enough has been trained since the last one."""
        return time.monotonic() - self._last > self._cost / SHARE

    def write(self, models: dict[int, Saved], results: dict[int, FitResult]) -> None:
        began = time.monotonic()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self._path.with_suffix(f".{os.getpid()}")
        with open(partial, "wb") as file:
            pickle.dump((models, results), file, protocol=5)
        os.replace(partial, self._path)
        self._last = time.monotonic()
        self._cost = self._last - began


def read(folder: Path) -> tuple[dict[int, Saved], dict[int, FitResult]]:
    """What earlier groups of this call have left: models under way, the furthest of each, and finished ones."""
    models: dict[int, Saved] = {}
    results: dict[int, FitResult] = {}
    for path in sorted(folder.glob("*.checkpoint")) if folder.is_dir() else ():
        with contextlib.suppress(Exception):  # of another version, or damaged: then from the start
            found, finished = pickle.loads(path.read_bytes())
            results |= finished
            for index, saved in found.items():
                if index not in models or saved.epoch > models[index].epoch:
                    models[index] = saved
    return models, results
