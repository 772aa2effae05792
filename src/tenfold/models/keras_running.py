"""A Keras model in a worker: compiled once for each shape of batch, in whatever backend the worker has.

What is compiled is `predict_step`, which is what `model.predict` calls, so that a model that has one of its own keeps
it. A state that a model changes while it predicts is not kept on JAX.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy

from tenfold.models import nesting
from tenfold.models.keras import output_names
from tenfold.models.nesting import Outputs, Rows
from tenfold.models.torch import allow_read_only


class Running:
    """What the backends share: how rows are given to the model, and which output is taken."""

    fixed = True
    by_name: bool | None

    def __init__(self, model: Any, output: str | None) -> None:
        import keras

        self._model = model
        self._output = output
        self._names = output_names(model)
        self._floats = numpy.dtype(keras.backend.floatx())
        self._wants_tuple = isinstance(getattr(model, "input", None), tuple)
        is_one = len(getattr(model, "inputs", None) or ()) == 1  # of a subclassed one, nobody knows
        self.by_name = True if isinstance(getattr(model, "input", None), dict) else False if is_one else None
        if output is not None and self._names and output not in self._names:
            raise nesting.unknown(output, self._names)

    @abstractmethod
    def __call__(self, rows: Rows) -> Outputs: ...

    def _arrays(self, rows: Rows) -> list[numpy.ndarray]:
        """Flat, and with floats as `model.predict` would have them."""
        arrays = [numpy.asarray(array) for array in nesting.flat(rows)]
        return [a.astype(self._floats) if a.dtype.kind == "f" and a.dtype != self._floats else a for a in arrays]

    def _nested(self, rows: Rows, tensors: Sequence[Any]) -> Any:
        """Tensors in the nesting of the rows: of several inputs a list, unless the model was made with a tuple."""
        remaining = iter(tensors)
        nested = nesting.each(lambda _: next(remaining), rows)
        return list(nested) if isinstance(nested, tuple) and not self._wants_tuple else nested

    def _chosen(self, outputs: Any) -> Any:
        if self._output is None:
            return outputs
        if isinstance(outputs, list | tuple) and self._names:
            return outputs[self._names.index(self._output)]
        return outputs if self._names == [self._output] else nesting.chosen(outputs, self._output)


class OnJax(Running):
    """`jax.jit`, which takes NumPy arrays itself and keeps a program for each shape.

    Measured with 784-128-64-10 on one core, microseconds for a batch of 32 / 256 / 1024 / 4096 rows: weights given as
    arguments 159 / 797 / 3582 / 20037, as constants 151 / 894 / 3845 / 17054. So arguments, which compile faster and
    hold the weights once.
    """

    def __init__(self, model: Any, output: str | None) -> None:
        import jax

        super().__init__(model, output)
        self._lock = threading.Lock()
        self._known: set[Any] = set()
        self._state = tuple(
            [variable.value for variable in some] for some in (model.trainable_variables, model.non_trainable_variables)
        )
        self._compiled = jax.jit(self._step)

    def _step(self, state: Any, x: Any) -> Any:
        return self._chosen(self._model.predict_step(state, (x,))[0])

    def __call__(self, rows: Rows) -> Outputs:
        arrays = self._arrays(rows)
        x = self._nested(rows, arrays)
        key = (form(rows), *((array.shape, array.dtype) for array in arrays))
        if key in self._known:
            return nesting.settled(self._compiled(self._state, x))
        with self._lock:  # one thread compiles, and the others wait for it instead of doing the same
            found = nesting.settled(self._compiled(self._state, x))
            self._known.add(key)
        return found


class OnTorch(Running):
    """Not compiled: batches may have any size."""

    fixed = False

    def __init__(self, model: Any, output: str | None) -> None:
        super().__init__(model, output)
        model.eval()
        allow_read_only()

    def __call__(self, rows: Rows) -> Outputs:
        import keras
        import torch

        with torch.inference_mode():
            tensors = [keras.ops.convert_to_tensor(array) for array in self._arrays(rows)]
            outputs = self._chosen(self._model.predict_step((self._nested(rows, tensors),)))
            return nesting.settled(outputs, keras.ops.convert_to_numpy)


def form(rows: Rows) -> Any:
    """The nesting of the rows, as something that can be looked up."""
    if isinstance(rows, dict):
        return tuple((name, form(value)) for name, value in rows.items())
    return tuple(form(value) for value in rows) if isinstance(rows, tuple) else None
