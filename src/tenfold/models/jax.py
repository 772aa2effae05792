"""Functions of JAX: what `jax.jit` made, alone or with its weights given by `functools.partial`."""

from __future__ import annotations

import functools
import threading
from typing import Any

from tenfold.models import nesting
from tenfold.models.function import FunctionModel
from tenfold.models.model import Predict, packed
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel


class JaxModel(FunctionModel):
    """Holds a parcel of the function. It takes the rows as one argument, nested as they are."""

    modules = ("jax",)
    one_form = True

    @property
    def changes_nothing(self) -> bool:
        return True

    def load(self) -> Predict:
        return _Running(parcel.unpack(self.content), self.output)

    def describe(self) -> str:
        return "a JAX function"


def is_jax(value: Any) -> bool:
    """Whether JAX compiles it; found without importing JAX."""
    while isinstance(value, functools.partial):
        value = value.func
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and callable(value) and hasattr(value, "lower")


def of_live(function: Any, output: str | None) -> JaxModel:
    return JaxModel(packed(function, "a JAX function"), output).known_by(model=function)


class _Running:
    """JAX keeps a program for each shape itself; here one thread makes it, and the others wait."""

    fixed = True
    by_name: bool | None = None

    def __init__(self, function: Any, output: str | None) -> None:
        self._function = function
        self._output = output
        self._lock = threading.Lock()
        self._known: set[Any] = set()

    def __call__(self, rows: Rows) -> Outputs:
        key = tuple((array.shape, array.dtype) for array in nesting.flat(rows))
        if key in self._known:
            return self._call(rows)
        with self._lock:
            found = self._call(rows)
            self._known.add(key)
        return found

    def _call(self, rows: Rows) -> Outputs:
        return nesting.settled(nesting.chosen(self._function(rows), self._output))
