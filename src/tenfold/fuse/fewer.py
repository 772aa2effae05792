"""In a worker: calls for fewer models than a chunk has, without computing for nothing for long.

    models that are left ──┬──> filled up with copies ──> the program for a chunk ──> the rows that are theirs
                           └──> a program for just as many, from when copies have cost what it takes to compile one

So copies cost no more than compilations do. Programs for other numbers of models agree to rounding, and when one is
changed for the other depends on time: who must have the same bits again does without.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from tenfold.fuse.code import Code

WORTH = 1.0  # times what a function took to compile that copies may cost before it is compiled for fewer
_MODELS_AT = {"advance": (0, 0, 1, None, None)}
"""Which dimension of each argument has the models; of other functions it is the first, and the fourth one is data."""


class Fewer:
    """Calls a `Code` for fewer models than a chunk has."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._wasted: dict[str, float] = defaultdict(float)

    def call(self, name: str, count: int, chunk: int, *arguments: Any, rarely: bool = False) -> Any:
        """As `Code.call`, for arguments with `count` rows."""
        if not self._code.has(name, *arguments):
            if self._wasted[name] < WORTH * self._code.took.get(name, 0.0):
                return self._filled_up(name, count, chunk, arguments, rarely)
            self._wasted[name] = 0.0
        return self._code.call(name, *arguments, rarely=rarely)

    def _filled_up(self, name: str, count: int, chunk: int, arguments: Sequence[Any], rarely: bool) -> Any:
        import jax

        full = _filled(name, chunk - count, arguments)
        self._code.function(name, *full, rarely=rarely)  # compiled before time is taken
        began = time.perf_counter()
        found = jax.tree.map(lambda array: numpy.asarray(array)[:count], self._code.call(name, *full, rarely=rarely))
        self._wasted[name] += (time.perf_counter() - began) * (chunk - count) / chunk
        return found


def _filled(name: str, more: int, arguments: Sequence[Any]) -> list[Any]:
    """With so many copies of the last model."""
    import jax

    def fill(array: Any, axis: int) -> numpy.ndarray:
        return numpy.pad(array, [(0, more if place == axis else 0) for place in range(numpy.ndim(array))], "edge")

    pairs = zip(arguments, _MODELS_AT.get(name, (0, 0, 0, None)), strict=False)
    return [one if axis is None else jax.tree.map(lambda a: fill(a, axis), one) for one, axis in pairs]  # noqa: B023
