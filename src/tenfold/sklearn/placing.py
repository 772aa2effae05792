"""Where an estimator's model is trained: in this process, or by `tenfold.map` while a search is under way."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy

from tenfold.dispatch.results import Results
from tenfold.errors import TaskError
from tenfold.fuse import plain
from tenfold.fuse.building import member
from tenfold.fuse.columns import leaves
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.sklearn.rungs import Place, Rungs
from tenfold.verbs.call import Settings
from tenfold.verbs.map import map  # noqa: A004
from tenfold.verbs.standing import Standing
from tenfold.work import seeds

Where = Mapping[str, Any]
"""What `map` is called with, beside the task and its items."""

_rungs: ContextVar[Rungs | None] = ContextVar("tenfold_sklearn_rungs", default=None)
_where: ContextVar[Where | None] = ContextVar("tenfold_sklearn_where", default=None)
_workers: ContextVar[Workers | None] = ContextVar("tenfold_sklearn_workers", default=None)


@contextlib.contextmanager
def by_map(where: Where) -> Iterator[None]:
    """Models that are trained in this block are trained by workers."""
    workers = Workers()
    tokens = _where.set(where), _workers.set(workers)
    try:
        yield
    finally:
        _where.reset(tokens[0])
        _workers.reset(tokens[1])
        workers.leave()


class Workers:
    """Those of the last job of a search stay: the best candidate's model is likely to be a program that they have."""

    def __init__(self) -> None:
        self._standing: Standing | None = None
        self._shown = numpy.arange(1, dtype=numpy.int32)

    def run(self, fit: Fit, items: Sequence[Mapping[str, Any]], where: Where) -> Results:
        self.leave()
        task: Any = fit
        self._standing = Standing(task, Settings(**where))
        self._shown = items[0].get("output_rows", self._shown)
        return self._standing.run(items)

    def again(self, fit: Fit, params: Mapping[str, Any]) -> Results | None:
        """Train one model on all rows, where the last job was the same for parts of them."""
        if self._standing is None:
            return None
        last = self._standing.task
        assert isinstance(last, Fit)
        if not _same(last, fit):
            self.leave()
            return None
        rows = numpy.arange(len(fit.data), dtype=numpy.int32)
        # Nobody asks for these outputs; as many as before are given by the program that is there.
        return self._standing.run([{**params, "rows": rows, "output_rows": self._shown}])

    def leave(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            standing.close()


def _same(one: Fit, other: Fit) -> bool:
    """Whether models of both are trained in the same way on the same data, all of it or some."""
    if any(fit.validation_columns is not None or fit.validation is not None for fit in (one, other)):
        return False
    (build, way), (other_build, other_way) = (_parts(fit) for fit in (one, other))
    if way != other_way or build["build"] is not other_build["build"] or build["form"] != other_build["form"]:
        return False
    arrays, others = (leaves(fit.training.parts) for fit in (one, other))
    return len(arrays) == len(others) and all(numpy.array_equal(a, b) for a, b in zip(arrays, others, strict=True))


def _parts(fit: Fit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of its build, and everything else but the data and what is told of them."""
    build: Any = fit.build
    parts = fit.__tenfold_parts__()
    return build.__tenfold_parts__(), {name: parts[name] for name in parts.keys() - {"build", "data", "outputs"}}


@contextlib.contextmanager
def on_rungs(epochs: int | None) -> Iterator[Rungs | None]:
    """Models that are trained in this block by workers go on from where they were, if they come again for more epochs.

    `epochs` is the most that they may come to; None where they do not come again.
    """
    rungs = Rungs(epochs) if epochs is not None else None
    token = _rungs.set(rungs)
    try:
        yield rungs
    finally:
        _rungs.reset(token)


def one(fit: Fit, params: Mapping[str, Any], verbose: int) -> FitResult:
    """Train one model, wherever that is; raises what its training raised."""
    where, workers = _where.get(), _workers.get()
    if where is not None:
        again = workers.again(fit, params) if workers is not None else None
        found = _opened(again[0]) if again is not None else every(fit, [params], where)[0][0]
        if isinstance(found, BaseException):
            raise found
        return found
    with seeds.restored():
        return _here(fit, params, verbose)


def every(
    fit: Fit, items: Sequence[Mapping[str, Any]], where: Where, places: Sequence[Place] | None = None
) -> list[tuple[FitResult | BaseException, float]]:
    """Train a model for each item; what came of it, and its share of the time.

    `places` are those of a search; a model without one is trained from its beginning.
    """
    rungs, workers = _rungs.get(), _workers.get()
    if rungs is not None and places is not None:
        return [(_opened(found), spent) for found, spent in rungs.run(fit, items, places, where)]
    if workers is not None and rungs is None:
        results = workers.run(fit, items, where)
    else:
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
