"""What a model looks like from outside, so that two can be compared by somebody who has neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Portrait:
    """The shapes and settings of one model."""

    shapes: dict[str, tuple[int, ...]]
    """Of its weights, by name."""
    settings: Any
    """Everything that it was configured with, as lists, dicts and plain values; None where nobody knows."""


def difference(one: Portrait, other: Portrait) -> str:
    """Why two models cannot be one program, in words."""
    for (name, shape), (other_name, other_shape) in zip(one.shapes.items(), other.shapes.items(), strict=False):
        if shape != other_shape:
            names = name if name == other_name else f"{name} and {other_name}"
            return f"shapes differ in {names}: {shape} and {other_shape}"
    if len(one.shapes) != len(other.shapes):
        return f"they have {len(one.shapes)} and {len(other.shapes)} weights"
    return _first(one.settings, other.settings, "") or "their training steps are different programs"


def _first(one: Any, other: Any, path: str) -> str | None:
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(f"{path}.{key}" if path else str(key), one.get(key), other.get(key)) for key in {**one, **other}]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{path}[{place}]", a, b) for place, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return f"{path} differs: {one!r} and {other!r}" if one != other else None
    return next((found for name, a, b in pairs if (found := _first(a, b, name))), None)
