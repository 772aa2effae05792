"""Where an estimator's model is trained: in this process, or by `tenfold.map` while a search is under way."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from tenfold.errors import TaskError
from tenfold.fuse import plain
from tenfold.fuse.building import member
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.verbs.map import map  # noqa: A004
from tenfold.work import seeds

Where = Mapping[str, Any]
"""What `map` is called with, beside the task and its items."""

_where: ContextVar[Where | None] = ContextVar("tenfold_sklearn_where", default=None)


@contextlib.contextmanager
def by_map(where: Where) -> Iterator[None]:
    """Models that are trained in this block are trained by workers."""
    token = _where.set(where)
    try:
        yield
    finally:
        _where.reset(token)


def one(fit: Fit, params: Mapping[str, Any], verbose: int) -> FitResult:
    """Train one model, wherever that is; raises what its training raised."""
    where = _where.get()
    if where is not None:
        found, _ = every(fit, [params], where)[0]
        if isinstance(found, BaseException):
            raise found
        return found
    with seeds.restored():
        return _here(fit, params, verbose)


def every(fit: Fit, items: Sequence[Mapping[str, Any]], where: Where) -> list[tuple[FitResult | BaseException, float]]:
    """Train a model for each item; what came of it, and its share of the time."""
    results = map(fit, items, on_error="collect", **where)
    seconds = [outcome.seconds for outcome in results.outcomes]
    return [(_opened(found), spent) for found, spent in zip(results, seconds, strict=True)]


def _opened(found: Any) -> Any:
    """What the task itself raised, where that has come over."""
    return found.__cause__ if isinstance(found, TaskError) and found.__cause__ is not None else found


def _here(fit: Fit, params: Mapping[str, Any], verbose: int) -> FitResult:
    """In this process, with a line after each epoch for those who want it."""
    if not verbose:
        return fit(params)

    def report(epoch: int, logs: dict[str, float]) -> None:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in logs.items())
        sys.stdout.write(f"epoch {epoch + 1} of {fit.epochs}: {numbers}\n")

    fit.check([params])
    return plain.train(fit, member(params, 0, 0, len(fit.data), report), "alone")
