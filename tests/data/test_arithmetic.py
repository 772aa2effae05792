"""Functions that do nothing but arithmetic: which they are, and that many samples at once give what each one gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.data.arithmetic import Arithmetic, is_arithmetic

MEAN, SCALE = numpy.array([1.0, 2.0, 3.0]), 0.25


def steps(value: Any) -> Any:
    """With a text that is no number of its own."""
    for _ in range(30):
        value = value * 0.5 + 1.0
    return value


def scaled(row: Any, by: float = 4.0) -> Any:
    return numpy.sqrt(abs(row - 1.5)) * (row > 0) / by % 3 - SCALE


def closed_over() -> Callable[[Any], Any]:
    offset = 3
    return lambda value: -value // offset


ARITHMETIC: list[Callable[[Any], Any]] = [steps, scaled, closed_over(), lambda row: row]


@pytest.mark.parametrize("function", ARITHMETIC)
def test_what_is_arithmetic(function: Callable[[Any], Any]) -> None:
    assert is_arithmetic(function, 0)
    assert is_arithmetic(function, 2)


def branch(value: Any) -> Any:
    return value if value > 0 else 0.0


def until(value: Any) -> Any:
    while value > 1:
        value = value / 2
    return value


def in_place(value: Any) -> Any:
    value *= 2.0
    return value


def over_the_sample(row: Any) -> Any:
    total = 0.0
    for one in row:
        total = total + one
    return total


def caught(value: Any) -> Any:
    try:
        return math.sqrt(value)
    except TypeError:
        return value


class Doubling:
    def __call__(self, value: Any) -> Any:
        return value * 2


OTHERS: list[Callable[[Any], Any]] = [
    *(branch, until, in_place, over_the_sample, caught, Doubling(), partial(scaled, by=2.0)),
    lambda value: value**2,
    lambda value: numpy.exp(value),
    lambda value: numpy.maximum(value, 0),
    lambda value: value + random.random(),
    lambda value: value * value.max(),
    lambda value: value[::2],
    lambda value: float(value),
    lambda value: isinstance(value, float) * 1.0,
    lambda value: (value, value),
    lambda value: None,
    lambda value: 1.0,
    lambda value: value + "1",
    lambda *values: values[0],
    lambda value, *, by=2: value * by,
    lambda value: (yield value),
]


@pytest.mark.parametrize("function", OTHERS)
def test_what_is_called_sample_by_sample(function: Callable[[Any], Any]) -> None:
    assert not is_arithmetic(function, 0)
    assert not is_arithmetic(function, 1)


def centred(row: Any) -> Any:
    return row - MEAN


def test_an_array_has_to_meet_the_numbers_of_one_sample() -> None:
    assert is_arithmetic(centred, 1)
    assert not is_arithmetic(centred, 0)  # a number of each sample would become a row


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i2", "u1", "?", ">f8"])
@pytest.mark.parametrize("function", ARITHMETIC)
def test_many_at_once_give_what_each_gives(function: Callable[[Any], Any], dtype: str) -> None:
    drawn = numpy.random.default_rng(0).normal(0, 100, 5000)
    special = [0.0, -0.0, 1e-310, 1e308, -1e308, *([math.inf, -math.inf, math.nan] if "f" in dtype else [])]
    with numpy.errstate(all="ignore"):
        values = numpy.concatenate([drawn, special]).astype(dtype)
        together = Arithmetic(function)(values)
        if together is None:
            with pytest.raises(TypeError):  # the negative of a boolean
                function(values[0])
            return
        each = numpy.array([function(value) for value in values])
    assert together.dtype == each.dtype.newbyteorder("=") or function is ARITHMETIC[-1]
    assert numpy.array_equal(together, each, equal_nan=each.dtype.kind == "f")
    assert (numpy.signbit(together) == numpy.signbit(each)).all() if each.dtype.kind == "f" else True


def test_a_set_is_the_same(tmp_path: Path) -> None:
    rows = numpy.random.default_rng(0).normal(size=(3000, 3))

    def one_by_one(row: Any) -> Any:
        return centred(row) if len(row) else None

    made = [tenfold.prepare(f, rows, tmp_path / f.__name__, progress=False) for f in (centred, one_by_one)]
    assert (made[0].numpy() == made[1].numpy()).all()
    assert made[0].numpy().dtype == numpy.float64


def test_a_sample_that_fails_is_found_out(tmp_path: Path) -> None:
    """What fails for many at once is called sample by sample: here for rows whose shape another array does not meet."""
    other = numpy.arange(4.0)

    def failing(row: Any) -> Any:
        return row - other

    with pytest.raises(tenfold.TasksFailed, match="none of 20 samples has become a row"):
        tenfold.prepare(failing, numpy.zeros((20, 3)), tmp_path / "set", progress=False)
