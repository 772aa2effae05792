"""A trained model as an estimator holds it: its weights, and the model itself where it is asked for.

Everything but the model itself is pickled: a Keras model does not travel well, and is built again in whatever backend
the other process has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from tenfold.fuse import order
from tenfold.fuse.result import FitResult
from tenfold.sklearn.craft import Columns, Craft, Model
from tenfold.sklearn.forms import Form, inputs
from tenfold.sklearn.making import Maker


@dataclass(frozen=True, slots=True)
class Known:
    """Rows whose outputs came with the result."""

    x: numpy.ndarray
    """All rows."""
    rows: numpy.ndarray
    """Which of them."""
    outputs: numpy.ndarray
    """Theirs."""

    def is_of(self, x: numpy.ndarray) -> bool:
        return x.shape == (len(self.rows), *self.x.shape[1:]) and numpy.array_equal(x, self.x[self.rows])


class Trained:
    """One model, and what to build it from."""

    def __init__(self, result: FitResult, maker: Maker, craft: Craft, form: Form, known: Sequence[Known] = ()) -> None:
        self.result = replace(result, outputs=None, build=None)
        self.form = form
        self._maker = maker
        self._craft = craft
        self._known = tuple(known)
        self._live: Model | None = None
        self._goes_on = False  # what the optimizer remembers is worth keeping
        self._state: Any = None  # that, where the model itself was left behind

    @classmethod
    def begun(cls, params: dict[str, Any], maker: Maker, craft: Craft, form: Form) -> Trained:
        """One that is built, and not trained yet."""
        live = craft.model(maker, params)
        found = cls(FitResult(params, {}, live.weights(), "alone"), maker, craft, form)
        found._live = live
        return found

    @property
    def live(self) -> Model:
        """The model, built at the first use."""
        if self._live is None:
            self._live = self._craft.model(self._maker, self.result.params)
            if self._state is not None:
                self._live.restore(self._state)
            self._live.put(self.result.weights)
        return self._live

    def outputs(self, x: numpy.ndarray) -> numpy.ndarray:
        """What the model gives for these rows; it is not built for those that are known."""
        for known in self._known:
            if known.is_of(x):
                return known.outputs
        return self.live.outputs(inputs(x, self.form, floats=self._craft.floats))

    def go_on(self, data: Columns, batch_size: int, *, shuffle: bool) -> None:
        """One more epoch on these rows."""
        x, y, weight = data
        epoch = len(self.result.history.get("loss", ()))
        rows = order.rows(len(x), int(self.result.params["seed"]), epoch, 0, shuffle=shuffle)
        logs = self.live.train((inputs(x, self.form, floats=self._craft.floats), y, weight), rows, batch_size)
        names = [*self.result.history, *(name for name in logs if name not in self.result.history)]
        history = {n: [*self.result.history.get(n, ()), *([logs[n]] if n in logs else ())] for n in names}
        self.result = replace(self.result, history=history, weights=self.live.weights(), best_epoch=None)
        self._known = ()
        self._goes_on = True

    def __getstate__(self) -> dict[str, Any]:
        state = self._live.state() if self._goes_on and self._live is not None else self._state
        return {**vars(self), "_live": None, "_known": (), "_state": state}
