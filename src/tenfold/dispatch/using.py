"""Which engine a call uses when it does not say so: `tenfold.use`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tenfold import engines
from tenfold.engines import Engine


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine and how much of it to use."""

    engine: Engine
    """The engine."""
    workers: int | None
    """How many tasks at once; None means as many as fit."""


_chosen: ContextVar[Choice | None] = ContextVar("tenfold_use", default=None)


@contextlib.contextmanager
def use(engine: object, *, workers: int | None = None, **options: Any) -> Iterator[Engine]:
    """Run every call in the block on `engine`: `with tenfold.use("local", workers=4): ...`."""
    found = engines.find(engine, **options)
    token = _chosen.set(Choice(found, workers))
    try:
        yield found
    finally:
        _chosen.reset(token)


def choice(engine: object, workers: int | None) -> Choice:
    """What a call uses: what it says itself, then what `use` says, then TENFOLD_ENGINE, then the local engine."""
    chosen = _chosen.get()
    if engine is not None or chosen is None:
        return Choice(engines.find(engine), workers)
    return Choice(chosen.engine, workers if workers is not None else chosen.workers)
