"""Any callable: it is given rows, and gives a value for each."""

from __future__ import annotations

from typing import Any

import numpy

from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel


class FunctionModel(Model):
    """Holds a parcel of the function. It takes the rows as one argument, nested as they are."""

    def load(self) -> Predict:
        # Its own copy: a function may write to what it closes over.
        return _Running(parcel.unpack(bytearray(self.content)), self.output)

    def describe(self) -> str:
        return "a function"


def of_live(function: Any, output: str | None) -> FunctionModel:
    return FunctionModel(packed(function, "a function"), output).known_by(model=function)


class _Running:
    """Whether threads may call it at the same time is up to whoever wrote it."""

    fixed = False
    by_name: bool | None = None

    def __init__(self, function: Any, output: str | None) -> None:
        self._function = function
        self._output = output

    def __call__(self, rows: Rows) -> Outputs:
        outputs = self._function(rows)
        if isinstance(outputs, list):  # a value for each row
            outputs = numpy.asarray(outputs)
        return nesting.settled(nesting.chosen(outputs, self._output), _array)


def _array(value: Any) -> numpy.ndarray:
    """Tensors of frameworks too: on a GPU, or with gradients, NumPy does not take PyTorch's by itself."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    return numpy.asarray(value)
