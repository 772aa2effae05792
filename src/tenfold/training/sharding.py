"""What came of a training in which no device holds the whole model: the model, and who held how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenfold.training.trained import Trained


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
