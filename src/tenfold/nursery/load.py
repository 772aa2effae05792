"""The function of a call, ready to be sent to any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenfold.nursery import child, used
from tenfold.work import parcel


@dataclass(frozen=True, slots=True)
class Load:
    """Packed once, whoever it is for."""

    content: bytes
    """A parcel, where it is small."""
    handle: int | None
    """A descriptor of shared memory that holds the parcel, where it is large; whoever has it closes it."""
    modules: list[str]
    """What a nursery imports ahead of it."""


def load(function: Callable[[Any], Any]) -> Load:
    """Pack `function`; refuse with what cannot travel."""
    packed, modules = parcel.pack_function(function), used.modules(function)
    if packed.size > child.INLINE:
        return Load(b"", parcel.shared(packed), modules)
    return Load(packed.to_bytes(), None, modules)
