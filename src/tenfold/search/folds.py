"""Which rows are held out: k parts of the data, or what a splitter of scikit-learn's says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.columns import check_rows
from tenfold.work.outcome import shorten

Fold = tuple[numpy.ndarray, numpy.ndarray]
"""Rows to train on, and rows to score on."""
CLASSES = 100  # whole numbers with more values than that are taken for amounts


def folds(cv: Any, x: Any, y: Any, count: int, seed: int) -> list[Fold]:
    """The folds of `cv=`: a number, a splitter, or pairs of row numbers."""
    if isinstance(cv, int) and not isinstance(cv, bool):
        if not 2 <= cv <= count:
            raise BadCall(f"cv={cv}: expected from 2 to {count}, the number of rows")
        return _parts(cv, y, count, seed)
    pairs = _pairs(cv, x, y, count)
    if len(pairs) < 2:
        raise BadCall(f"cv=: expected two folds at least, found {len(pairs)}")
    names = ("cv=: rows of fold {}", "cv=: held-out rows of fold {}")
    return [
        (check_rows(training, names[0].format(place), count), check_rows(held, names[1].format(place), count))
        for place, (training, held) in enumerate(pairs)
    ]


def _pairs(cv: Any, x: Any, y: Any, count: int) -> list[tuple[Any, Any]]:
    """As a splitter or the caller has made them."""
    told = f"cv={shorten(cv)}: expected a number of folds, a splitter, or pairs of (training rows, held-out rows)"
    splits = hasattr(cv, "split")
    if isinstance(cv, str) or not (splits or isinstance(cv, Iterable)):
        raise BadCall(told)
    try:
        whole = x if isinstance(x, numpy.ndarray) else numpy.zeros((count, 1))  # of several inputs, only the rows count
        return [(training, held) for training, held in (cv.split(whole, y) if splits else cv)]
    except (TypeError, ValueError) as error:
        raise BadCall(f"{told}; {error}") from error


def _parts(k: int, y: Any, count: int, seed: int) -> list[Fold]:
    """Shuffled; each with its share of every class, where `y` are classes."""
    order = numpy.random.default_rng(seed).permutation(count)
    if isinstance(y, numpy.ndarray) and y.dtype.kind in "iub" and y.size == count:
        classes = numpy.unique(y)
        if len(classes) <= CLASSES:
            order = order[numpy.argsort(numpy.asarray(y).reshape(-1)[order], kind="stable")]
    part = numpy.empty(count, numpy.int64)
    part[order] = numpy.arange(count) % k  # dealt like cards, one class after the other
    rows = numpy.arange(count)
    return [(rows[part != fold], rows[part == fold]) for fold in range(k)]
