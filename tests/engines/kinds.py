"""Things that can be called, of every kind that people give to `map`. Importable, so they travel by their names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy


def square(x: int) -> int:
    return x * x


def scale(factor: int, x: int, *, offset: int = 0) -> int:
    return factor * x + offset


class Model:
    """Has methods, and is a function itself."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def apply(self, x: int) -> int:
        return self.factor * x

    @classmethod
    def negate(cls, x: int) -> int:
        return -x

    @staticmethod
    def double(x: int) -> int:
        return 2 * x

    def __call__(self, x: int) -> int:
        return self.factor + x


def _logged(function: Callable[[int], int]) -> Callable[[int], int]:
    @functools.wraps(function)
    def inner(x: int) -> int:
        return function(x)

    return inner


@_logged
def decorated(x: int) -> int:
    return x - 1


@functools.cache
def cached(x: int) -> int:
    return x + 100


def _closure(offset: int) -> Callable[[int], int]:
    def add(x: int) -> int:
        return x + offset

    return add


def _recursive() -> Callable[[int], int]:
    def factorial(x: int) -> int:
        return 1 if x < 2 else x * factorial(x - 1)

    return factorial


KINDS: dict[str, Callable[[Any], Any]] = {
    "function": square,
    "lambda": lambda x: x + 1,
    "closure": _closure(7),
    "recursive closure": _recursive(),
    "partial": functools.partial(scale, 3, offset=1),
    "partial of a lambda": functools.partial(lambda a, x: a - x, 5),
    "method": Model(4).apply,
    "class method": Model.negate,
    "static method": Model.double,
    "callable object": Model(9),
    "builtin": abs,
    "type": str,
    "operator": operator.neg,
    "method of a builtin": "{:>5}".format,
    "decorated": decorated,
    "cached": cached,
    "ufunc": numpy.sqrt,
}
