"""Which rows are held out: k parts of the data, or what a splitter of scikit-learn's says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

from tenfold.errors import BadCall

Fold = tuple[numpy.ndarray, numpy.ndarray]
"""Rows to train on, and rows to score on."""
CLASSES = 100  # whole numbers with more values than that are taken for amounts


def folds(cv: Any, x: Any, y: Any, count: int, seed: int) -> list[Fold]:
    """The folds of `cv=`: a number, a splitter, or pairs of row numbers."""
    if isinstance(cv, int) and not isinstance(cv, bool):
        if not 2 <= cv <= count:
            raise BadCall(f"cv={cv}: expected from 2 to {count}, the number of rows")
        return _parts(cv, y, count, seed)
    found = cv.split(x, y) if hasattr(cv, "split") else cv
    if not isinstance(found, Iterable):
        raise BadCall(f"cv={cv!r}: expected a number of folds, a splitter, or pairs of (training rows, held-out rows)")
    pairs = [(numpy.asarray(training), numpy.asarray(held)) for training, held in found]
    if len(pairs) < 2:
        raise BadCall(f"cv=: expected two folds at least, found {len(pairs)}")
    return pairs


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
