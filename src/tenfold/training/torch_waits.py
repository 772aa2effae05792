"""In a worker: how long PyTorch is busy with what workers send each other, for the worker's clock.

Between CPUs, threads of gloo's send and receive. The worker's own thread asks them to, and waits when it needs what
they bring: both are counted, whichever way the model is divided. What is sent while it computes takes none of its time.
Between GPUs, these calls return at once, and the devices wait: that is not seen here.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.distributed import ProcessGroup, Work, _functional_collectives

from tenfold.work.clock import Clock

PLACES: tuple[Any, ...] = (ProcessGroup, Work, _functional_collectives)
"""What all others call: FSDP2 and pipelines the first two, DTensor the last."""
STARTS = ("all", "broadcast", "gather", "recv", "reduce", "scatter", "send", "wait")
"""Of the names of such calls; which there are differs from version to version."""


@contextlib.contextmanager
def noted(clock: Clock) -> Iterator[None]:
    """Until the end of the block, such calls are communication."""
    watch = _Watch(clock)
    before = [
        (place, name, value)
        for place in PLACES
        for name, value in vars(place).items()
        if name.lstrip("_").startswith(STARTS) and callable(value)
    ]
    try:
        for place, name, value in before:
            setattr(place, name, watch.timed(value))
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


class _Watch:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._inside = False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside or torch.compiler.is_compiling():  # counted by the outer one; part of a program
                return function(*args, **kwargs)
            self._inside, began = True, time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False
                self._clock.aside("communication", time.monotonic() - began)

        return timed
