"""The function of a call, ready to be sent to any number of workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
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
    filling: Future[None] | None = None
    """Done when the shared memory holds all of it, where it does not yet."""

    def close(self) -> None:
        if self.filling is not None:
            self.filling.exception()
        if self.handle is not None:
            os.close(self.handle)


def load(function: Callable[[Any], Any], *, soon: bool = False) -> Load:
    """Pack `function`; refuse with what cannot travel.

    With `soon` a large one may still be on its way to shared memory: workers that open that by its path wait for it.
    """
    packed, modules = parcel.pack_function(function), used.modules(function)
    if packed.size <= child.INLINE:
        return Load(packed.to_bytes(), None, modules)
    if soon:
        handle, filling = parcel.shared_soon(packed)
        return Load(b"", handle, modules, filling)
    return Load(b"", parcel.shared(packed), modules)
