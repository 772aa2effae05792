"""A Keras model in this process, in this process's backend: to predict with, and to go on training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tenfold.fuse.building import construct
from tenfold.fuse.result import Weights
from tenfold.sklearn.craft import Columns
from tenfold.sklearn.making import Maker
from tenfold.work import seeds

BATCH_BYTES = 1 << 24  # of rows that are predicted at once: large enough to be quick, small enough for any memory
ROWS = (32, 4096)
"""The fewest and the most rows that are predicted at once."""


class KerasModel:
    """A `Model` of Keras."""

    def __init__(self, maker: Maker, params: Mapping[str, Any]) -> None:
        with seeds.restored():
            self.model = construct(maker, params)

    def put(self, weights: Weights) -> None:
        self.model.set_weights(weights)

    def weights(self) -> Weights:
        return [numpy.array(array) for array in self.model.get_weights()]

    def outputs(self, x: numpy.ndarray) -> numpy.ndarray:
        rows = min(max(BATCH_BYTES // max(1, x[:1].nbytes), ROWS[0]), ROWS[1])
        return numpy.asarray(self.model.predict(x, batch_size=rows, verbose=0))

    def train(self, data: Columns, order: numpy.ndarray, batch_size: int) -> dict[str, float]:
        x, y, weight = (None if array is None else array[order] for array in data)
        fitted = self.model.fit(x, y, sample_weight=weight, batch_size=batch_size, epochs=1, shuffle=False, verbose=0)
        return {name: float(values[-1]) for name, values in fitted.history.items()}

    def state(self) -> Any:
        return [numpy.array(variable) for variable in self._variables()]

    def restore(self, state: Any) -> None:
        for variable, value in zip(self._variables(), state, strict=True):
            variable.assign(value)

    def _variables(self) -> list[Any]:
        """What the optimizer remembers, and where the random numbers of dropout are."""
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        weights = {id(variable) for variable in self.model.weights}
        others = [variable for variable in self.model.non_trainable_variables if id(variable) not in weights]
        return [*self.model.optimizer.variables, *others]
