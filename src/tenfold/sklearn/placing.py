"""Where an estimator's model is trained: in this process, or by `tenfold.map` while a search is under way."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from tenfold.dispatch.results import Results
from tenfold.errors import TaskError
from tenfold.fuse import plain
from tenfold.fuse.building import member
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.journal import fingerprint
from tenfold.verbs.map import map  # noqa: A004
from tenfold.work import seeds
from tenfold.work.leg import Leg

Where = Mapping[str, Any]
"""What `map` is called with, beside the task and its items."""

_legs: ContextVar[Legs | None] = ContextVar("tenfold_sklearn_legs", default=None)
_where: ContextVar[Where | None] = ContextVar("tenfold_sklearn_where", default=None)


@contextlib.contextmanager
def by_map(where: Where) -> Iterator[None]:
    """Models that are trained in this block are trained by workers."""
    token = _where.set(where)
    try:
        yield
    finally:
        _where.reset(token)


@contextlib.contextmanager
def in_legs(epochs: int | None) -> Iterator[None]:
    """Models that are trained in this block by workers go on from where they were, if they come again for more epochs.

    `epochs` is the most that they may come to; None where they do not come again.
    """
    token = _legs.set(Legs(epochs) if epochs is not None else None)
    try:
        yield
    finally:
        _legs.reset(token)


class Legs:
    """What models of a search go on from."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._saved: dict[bytes, Any] = {}

    def run(self, fit: Fit, items: Sequence[Mapping[str, Any]], where: Where) -> Results:
        """Train each to the epochs of this `Fit`, and no further."""
        keys = [fingerprint.of_value(dict(item)) for item in items]
        whole = copy.copy(fit)
        whole.epochs = self._epochs
        stop = fit.epochs if fit.epochs < self._epochs else None
        legs = [
            Leg(place, dict(item), None, saved.epoch if saved else 0, stop, numbered=True, state=saved)
            for place, (key, item) in enumerate(zip(keys, items, strict=True))
            for saved in [self._saved.pop(key, None)]
        ]
        results = map(whole, legs, on_error="collect", **where)
        for key, found in zip(keys, results, strict=True):
            if isinstance(found, FitResult) and found.saved is not None:
                self._saved[key] = found.saved
        return results


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
    legs = _legs.get()
    results = map(fit, items, on_error="collect", **where) if legs is None else legs.run(fit, items, where)
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
