"""What a model wants as targets, and what its outputs mean. Used by the caller and by workers; imports no framework.

Only the model itself knows, and the caller never builds one: it guesses from the words in `build`'s code, the worker
compares with the model that it has built, and answers `OtherForm` where the guess was wrong. Then the caller gives
the data in that form. So a guess costs time, never correctness.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from tenfold.errors import BadCall

Targets = Literal["numbers", "one-hot", "column", "flat"]
"""Numbers of classes; a column for each class; one column (or one for each number to predict); no columns at all."""
Outputs = Literal["probabilities", "logits", "odds", "log probabilities", "margins", "values"]
"""Odds are logits of classes that do not exclude one another; values are what a regressor predicts."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one model talks about classes or numbers."""

    targets: Targets
    """How it takes y."""
    outputs: Outputs
    """What comes out."""
    units: int
    """How many columns come out."""
    keeps_integers: bool = False
    """Integers in x stay integers: they are looked up, not calculated with."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be learned."""

    classes: int | None
    """How many there are; None for numbers to predict."""
    columns: int
    """How many numbers to predict; for classes 1."""
    shape: tuple[int, ...]
    """Of a row of x."""
    dtype: str
    """Of x."""

    @property
    def sample(self) -> numpy.ndarray:
        """Two rows that look like those of x."""
        return numpy.zeros((2, *self.shape), self.dtype)


class OtherForm(BadCall):
    """A model that was built has another form than the data."""

    def __init__(self, form: Form) -> None:
        super().__init__(f"the model takes its data in another form: {form}")
        self.form = form

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.form,)


def checked(form: Form, problem: Problem) -> Form:
    """Refuse a model that cannot answer the question, in words."""
    expected = problem.columns if problem.classes is None else problem.classes
    single = form.targets in ("column", "flat")
    if problem.classes is not None and single and problem.classes > 2:
        raise BadCall(
            f"build returned a model with one output, and y has {problem.classes} classes: it needs one output for "
            "each; give build a parameter n_classes, which is filled in"
        )
    if (problem.classes is None and form.units != expected) or (not single and form.units < expected):
        raise BadCall(
            f"build returned a model with {form.units} outputs, and y has {expected} "
            f"{'columns' if problem.classes is None else 'classes'}: it needs one for each; give build a parameter "
            f"{'n_outputs' if problem.classes is None else 'n_classes'}, which is filled in"
        )
    return form


# -- there and back ---------------------------------------------------------------------------------------------------


def inputs(x: numpy.ndarray, form: Form, *, floats: bool) -> numpy.ndarray:
    """x as the model takes it; `floats` for a framework that does not turn integers into them by itself."""
    return x.astype(numpy.float32) if floats and x.dtype.kind in "biu" and not form.keeps_integers else x


def targets(y: numpy.ndarray, form: Form) -> numpy.ndarray:
    """Numbers of classes, or numbers to predict, as the model takes them."""
    if form.targets == "numbers":
        return y
    if form.targets == "one-hot":
        one_hot: numpy.ndarray = numpy.eye(form.units, dtype=numpy.float32)[y]
        return one_hot
    floats = y if y.dtype.kind == "f" else y.astype(numpy.float32)
    return floats.reshape(len(y)) if form.targets == "flat" else floats.reshape(len(y), -1)


def probabilities(outputs: numpy.ndarray, form: Form, classes: int) -> numpy.ndarray:
    """Of each class, rows that sum to one."""
    if form.outputs == "margins":
        raise BadCall(
            "predict_proba: a hinge loss gives no probabilities; compile with a cross-entropy, or use predict"
        )
    if form.targets in ("column", "flat"):
        second = _READ_ONE[form.outputs](outputs.reshape(len(outputs)))
        return numpy.stack([1 - second, second], axis=1)
    return _READ_MANY[form.outputs](outputs[:, :classes])


def numbers(outputs: numpy.ndarray, form: Form, classes: int) -> numpy.ndarray:
    """Of the class that is chosen for each row."""
    if form.targets not in ("column", "flat"):
        return numpy.asarray(outputs[:, :classes].argmax(axis=1))
    if form.outputs != "margins":
        return numpy.asarray(probabilities(outputs, form, classes).argmax(axis=1))
    return (outputs.reshape(len(outputs)) > 0).astype(numpy.int64)


def _sigmoid(logits: numpy.ndarray) -> numpy.ndarray:
    half: numpy.ndarray = 0.5 * (1 + numpy.tanh(0.5 * logits))  # the same, and it does not overflow
    return half


def _shares(positive: numpy.ndarray) -> numpy.ndarray:
    """Rows that sum to one; where nothing is left of a row, all classes have the same share."""
    total = positive.sum(axis=1, keepdims=True)
    even = numpy.full_like(positive, 1 / positive.shape[1])
    return numpy.asarray(numpy.divide(positive, total, out=even, where=total > 0))


def _softmax(logits: numpy.ndarray) -> numpy.ndarray:
    return _shares(numpy.exp(logits - logits.max(axis=1, keepdims=True)))


def _bounded(outputs: numpy.ndarray) -> numpy.ndarray:
    return numpy.asarray(numpy.clip(outputs, 0, 1))


_READ_ONE: dict[str, Callable[[numpy.ndarray], numpy.ndarray]] = {
    "probabilities": _bounded,
    "logits": _sigmoid,
    "odds": _sigmoid,
    "log probabilities": numpy.exp,
}
_READ_MANY: dict[str, Callable[[numpy.ndarray], numpy.ndarray]] = {
    "probabilities": lambda outputs: _shares(_bounded(outputs)),
    "logits": _softmax,
    "odds": lambda outputs: _shares(_sigmoid(outputs)),
    "log probabilities": _softmax,
}


# -- words ------------------------------------------------------------------------------------------------------------


def words(build: Any, values: Iterator[Any]) -> set[str]:
    """Names and texts in the code of `build`, and texts among the values that it is called with."""
    found = {value for value in values if isinstance(value, str)}
    while isinstance(build, functools.partial):
        found |= {value for value in build.keywords.values() if isinstance(value, str)}
        build = build.func
    call = getattr(type(build), "__call__", None)  # noqa: B004  # its code is wanted, not whether it has any
    code = getattr(build, "__code__", None) or getattr(call, "__code__", None)
    return found | (_words(code) if code is not None else set())


def _words(constant: Any) -> set[str]:
    if isinstance(constant, str):
        return {constant}
    if isinstance(constant, tuple):
        return set().union(*map(_words, constant))
    if isinstance(constant, types.CodeType):
        return set(constant.co_names).union(*map(_words, constant.co_consts))
    return set()
