"""In a worker: how long PyTorch waits for what other workers send, for the worker's clock.

Between CPUs, threads of gloo's send and receive. Whoever needs what they bring waits for it in one of two functions,
whichever way the model is divided. What is sent while something is computed is not waited for, and takes no time.
Between GPUs, both functions return at once, and the devices wait: that is not seen here.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from torch.distributed import Work, _functional_collectives

from tenfold.work.clock import Clock


@contextlib.contextmanager
def noted(clock: Clock) -> Iterator[None]:
    """Until the end of the block, such waiting is communication."""
    known: list[tuple[Any, str]] = [(Work, "wait"), (_functional_collectives, "wait_tensor")]  # of FSDP2, of DTensor
    before = [(owner, name, getattr(owner, name)) for owner, name in known]
    try:
        for owner, name, function in before:
            setattr(owner, name, _timed(function, clock))
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _timed(wait: Callable[..., Any], clock: Clock) -> Callable[..., Any]:
    @functools.wraps(wait)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        try:
            return wait(*args, **kwargs)
        finally:
            clock.aside("communication", time.monotonic() - began)

    return timed
