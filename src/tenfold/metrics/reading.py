"""What truth and predictions may look like, and what they are turned into. Everything else is refused, with shapes.

truth        labels of shape (n,) or (n, 1): whole numbers, bools, text or bytes; or one-hot rows (n, classes) predicted
labels in the same forms; or scores (n, classes), of which the greatest is the class; or, for two classes, one
             column of float probabilities, (n,) or (n, 1), which is the positive class above 0.5
"""

from __future__ import annotations

from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.port import Array


def truth_labels(truth: Any, first: int = 0) -> Array:
    """The label of each row: int64 or text."""
    return _labels("truth", _column(numpy.asarray(truth)), first)


def chosen(predicted: Any, first: int = 0) -> tuple[Array, int | None]:
    """The class of each row: a label and None, or the number of a column and how many columns there are."""
    array = _column(numpy.asarray(predicted))
    if array.ndim == 2 and array.dtype.kind in "iuf":
        _finite("predicted", array, first)
        return numpy.argmax(array, axis=1), array.shape[1]
    if array.ndim == 1 and array.dtype.kind == "f":
        _finite("predicted", array, first)
        _within("one column of predicted floats is the probability of the positive class", array, first)
        return (array > 0.5).astype(numpy.int64), 2
    labels = _labels("predicted", array, first)
    return labels, array.shape[1] if array.ndim == 2 else None


def probabilities(predicted: Any, first: int = 0) -> Array:
    """A probability for each class: (n, classes), two for one column."""
    array = scores(predicted, first)
    _within("predicted probabilities", array, first)
    return numpy.concatenate([1 - array, array], axis=1) if array.shape[1] == 1 else array


def scores(predicted: Any, first: int = 0) -> Array:
    """Numbers of any size, (n, columns); float32 and float64 stay what they are."""
    array = numpy.asarray(predicted)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise BadCall(f"predicted is {form(array)}: expected scores or probabilities of shape (n,) or (n, classes)")
    _finite("predicted", array, first)
    array = array if array.dtype in (numpy.float32, numpy.float64) else array.astype(numpy.float64)
    return array[:, None] if array.ndim == 1 else array


def numbers(what: str, values: Any, first: int = 0) -> Array:
    """Numbers to compare, (n, outputs) in float64."""
    array = numpy.asarray(values)
    if array.dtype.kind == "O":
        array = numpy.array(array.tolist())
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise BadCall(f"{what} is {form(array)}: expected numbers of shape (n,) or (n, outputs)")
    _finite(what, array, first)
    array = array.astype(numpy.float64, copy=False)
    return array[:, None] if array.ndim == 1 else array


def same_length(truth: Array, predicted: Array) -> None:
    """A prediction for each row."""
    if len(truth) != len(predicted):
        raise BadCall(f"truth has {len(truth)} rows and predicted has {len(predicted)}: expected as many")


def texts(array: Array) -> Array:
    """Texts as NumPy's own, where they are objects, as pandas has them, or bytes; anything else as it is."""
    if array.dtype.kind == "O" and array.size and all(isinstance(one, str | bytes) for one in array.flat):
        words = [one.decode() if isinstance(one, bytes) else one for one in array.flat]
        return numpy.array(words).reshape(array.shape)
    return numpy.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def form(array: Array) -> str:
    """What an array is like, for messages."""
    return f"an array of {array.dtype} with the shape {array.shape}"


def _column(array: Array) -> Array:
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _labels(what: str, array: Array, first: int) -> Array:
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "biuf":
        return _of_one_hot(what, array, first)
    if array.ndim != 1:
        raise BadCall(f"{what} is {form(array)}: expected labels of shape (n,) or (n, 1), or one-hot rows (n, classes)")
    array = texts(array)
    if array.dtype.kind in "biu":
        return array.astype(numpy.int64)
    if array.dtype.kind == "f":
        return _whole(what, array, first)
    if array.dtype.kind in "UT":
        return array.astype(str)
    if array.dtype.kind == "O":
        return _of_objects(what, array, first)
    raise BadCall(f"{what} is {form(array)}: expected labels that are whole numbers, bools or text")


def _of_one_hot(what: str, array: Array, first: int) -> Array:
    good = ((array == 0) | (array == 1)).all(axis=1) & (array.sum(axis=1) == 1)
    if not good.all():
        raise BadCall(
            f"{what} has the shape {array.shape}, and row {first + int(numpy.argmin(good))} is not one-hot: expected "
            f"one 1 and zeros; rows with several classes, or with shares of them, are not scored"
        )
    return numpy.asarray(numpy.argmax(array, axis=1))


def _whole(what: str, array: Array, first: int) -> Array:
    _finite(what, array, first)
    good = array == numpy.floor(array)
    if not good.all():
        place = int(numpy.argmin(good))
        raise BadCall(
            f"{what} is {array[place]} in row {first + place}: expected labels, which are whole numbers or text"
        )
    return array.astype(numpy.int64)


def _of_objects(what: str, array: Array, first: int) -> Array:
    values = array.tolist()
    kinds = str if any(isinstance(value, str) for value in values) else (bool, int, float, numpy.number, numpy.bool_)
    for place, value in enumerate(values):
        if not isinstance(value, kinds):
            raise BadCall(f"{what} is {value!r} in row {first + place}: expected all numbers, or all text")
    return _labels(what, numpy.array(values), first)


def _finite(what: str, array: Array, first: int) -> None:
    if array.dtype.kind != "f":
        return
    good = numpy.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if not good.all():
        place = int(numpy.argmin(good))
        raise BadCall(f"{what} is {array[place]} in row {first + place}: expected finite numbers")


def _within(what: str, array: Array, first: int) -> None:
    good = ((array >= 0) & (array <= 1)).all(axis=tuple(range(1, array.ndim)))
    if not good.all():
        place = int(numpy.argmin(good))
        raise BadCall(
            f"predicted is {array[place]} in row {first + place}: {what}, from 0 to 1; apply sigmoid or softmax to "
            f"logits, and give labels as whole numbers"
        )
