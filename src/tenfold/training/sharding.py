"""A model that no device holds whole: how it is to be divided, and what came of it, with who held how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenfold.training.trained import Trained

SMALL = 1024  # numbers; to fetch the parts of a smaller matrix costs more than to have it everywhere
ROWS, MODEL = "rows", "model"
"""The axes of a mesh."""
Layout = Mapping[str, Sequence[str | None]]
"""Pattern of a variable's path -> for each of its axes, the axis of the mesh that it is cut along, or None."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How the caller wants a model divided; nothing given is the framework's usual way."""

    mesh: tuple[int, int] | None = None
    """Parts of the rows of a batch, and of the model."""
    layout: Layout | None = None
    """Which weights are cut along which axis, where that is not to be found out."""
    stages: int | None = None
    """Parts of a pipeline."""

    def told(self, count: int) -> str:
        """For the record of a run that goes on only if it is the same."""
        return f"{count}: mesh {self.mesh}, layout {sorted((self.layout or {}).items())}, stages {self.stages}"


@dataclass(frozen=True, slots=True)
class Share:
    """What one device held, measured at the end."""

    device: str
    """Its name; of several processes, their rank."""
    parameters: int
    """Bytes of the model's own."""
    optimizer: int
    """Bytes of what the optimizer remembers."""


@dataclass(frozen=True, repr=False)
class Sharded(Trained):
    """One trained model that was divided among devices."""

    shares: tuple[Share, ...] = ()
    """One for each device."""
    whole: Share = Share("", 0, 0)
    """What one device would have held by itself."""


def cut(shape: tuple[int, ...], parts: int) -> tuple[str | None, ...]:
    """Of a matrix that is large: its longest axis that can be divided evenly. Everything else is everywhere."""
    axes: list[str | None] = [None] * len(shape)
    divisible = [axis for axis, length in enumerate(shape) if length % parts == 0 and length >= parts]
    if parts > 1 and len(shape) > 1 and divisible and math.prod(shape) >= SMALL:
        axes[max(divisible, key=lambda axis: shape[axis])] = MODEL
    return tuple(axes)


def check_mesh(mesh: object, count: int) -> list[str]:
    """What is wrong with it, in words."""
    if mesh is None:
        return []
    parts = list(mesh) if isinstance(mesh, Sequence) and not isinstance(mesh, str) else []
    if len(parts) != 2 or not all(isinstance(part, int) and not isinstance(part, bool) and part > 0 for part in parts):
        return [f"mesh={mesh!r}: expected how many parts the rows and the model have, such as (2, 2)"]
    if parts[0] * parts[1] != count:
        return [f"mesh={mesh!r}: that is {parts[0] * parts[1]} devices, and workers={count}"]
    return []
