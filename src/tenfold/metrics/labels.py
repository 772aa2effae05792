"""Which labels there are, and which column of predicted scores belongs to which.

A block need not hold every label, so columns get their labels at the end, when all labels are known. Labels that are
whole numbers below the number of columns are the columns themselves; otherwise the sorted labels are, as scikit-learn
has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.port import Array
from tenfold.metrics.reading import texts


def union(a: Array, b: Array) -> Array:
    """The labels of both, sorted."""
    if len(a) == 0 or len(b) == 0:
        return a if len(b) == 0 else b
    if a.dtype.kind != b.dtype.kind:
        raise BadCall(f"labels of two kinds: {shown(a)} and {shown(b)}; expected all to be numbers, or all to be text")
    if a.dtype == b.dtype and numpy.array_equal(a, b):
        return a
    return numpy.union1d(a, b)


def columns_of(labels: Array, width: int, classes: Array | None) -> Array:
    """The column of each label, in predictions that have `width` columns."""
    if classes is not None:
        return _found(labels, width, classes)
    if labels.dtype.kind == "i" and (len(labels) == 0 or (labels.min() >= 0 and labels.max() < width)):
        return labels
    if len(labels) == width:
        return numpy.arange(width)
    raise BadCall(
        f"{width} columns are predicted, and the truth holds {len(labels)} labels: {shown(labels)}; "
        f"say which label each column is for with classes=[...]"
    )


def labels_of(labels: Array, width: int, classes: Array | None) -> Array:
    """The label of each of `width` columns: the same, seen from the other side."""
    if classes is not None:
        _found(labels, width, classes)
        return classes
    columns = columns_of(labels, width, None)
    return numpy.arange(width) if columns is labels else labels


def positive_of(labels: Array, classes: Array | None) -> Any:
    """Which of two labels is the positive one: 1 of 0 and 1 (or -1 and 1), otherwise the greater; None if unknown."""
    if classes is not None:
        return classes[-1]
    if labels.dtype.kind == "i" and any(set(labels.tolist()) <= pair for pair in ({0, 1}, {-1, 1})):
        return 1
    return labels[-1] if len(labels) == 2 else None


def classes_array(classes: Sequence[Any] | Array | None) -> Array | None:
    """The labels of the columns as a caller gave them."""
    if classes is None:
        return None
    array = texts(numpy.asarray(classes))
    kinds = {"b": "i", "u": "i"}
    is_whole = array.dtype.kind == "f" and bool((array == numpy.floor(array)).all())  # labels that were floats
    array = array.astype(numpy.int64) if array.dtype.kind in kinds or is_whole else array
    if array.ndim != 1 or array.dtype.kind not in "iU" or len(numpy.unique(array)) != len(array) or len(array) < 2:
        raise BadCall(f"classes={classes!r}: expected two or more different labels, all whole numbers or all text")
    return array


def shown(labels: Array) -> str:
    """A few of them, for messages."""
    words = [repr(label) for label in labels[:5].tolist()]
    return ", ".join(words) + (", ..." if len(labels) > 5 else "")


def _found(labels: Array, width: int, classes: Array) -> Array:
    if len(classes) != width:
        raise BadCall(f"classes has {len(classes)} labels ({shown(classes)}), and {width} columns are predicted")
    if len(labels) and labels.dtype.kind != classes.dtype.kind:
        raise BadCall(f"classes are {shown(classes)}, and the truth holds {shown(labels)}: expected one kind of label")
    strange = numpy.setdiff1d(labels, classes)
    if len(strange):
        raise BadCall(f"the truth holds labels that are not in classes: {shown(strange)}")
    order = numpy.argsort(classes)
    return numpy.asarray(order[numpy.searchsorted(classes, labels, sorter=order)])
