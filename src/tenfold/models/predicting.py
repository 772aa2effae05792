"""In a worker: rows through a model, in batches whose size is found once for all workers of a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenfold.models import batching, nesting, sizing
from tenfold.models.model import Model, Predict, loaded
from tenfold.plan.batches import even, limit_of
from tenfold.work.here import here
from tenfold.work.settled import settle


class Predicting:
    """A function of rows; `x` says what of them goes into the model. `among`: of how many models of a task."""

    def __init__(self, model: Model, x: Callable[[Any], Any], batch_size: int | None, among: int = 1) -> None:
        self._model = model
        self._x = x
        self._batch_size = batch_size
        self._among = among
        self._found: int | None = batch_size
        self._longest = 0

    @property
    def changes_nothing(self) -> bool:
        """Rows may be where they lie in a file."""
        return self._model.changes_nothing

    def at_a_time(self, rows: int) -> int:
        """Of so many rows, how many to read and give it at once: a batch, if any of them shows the form of all."""
        return even(rows, self._found or sizing.TRIED) if self._model.one_form else rows

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {**self._model.__tenfold_parts__(), "columns": self._x, "batch_size": self._batch_size}

    def __tenfold_modules__(self, _named: set[str]) -> list[str]:
        return [*self._model.modules, __name__, type(self._model).__module__]

    @property
    def __name__(self) -> str:
        return "predict"

    def __call__(self, rows: Any) -> Any:
        """Outputs as arrays; several as a dict."""
        found = self.outputs(self._x(rows))
        if isinstance(found, tuple):
            return {f"output_{place}": output for place, output in enumerate(found)}
        return found

    def check(self, rows: Any) -> None:
        """BadCall for rows that the model does not take; asked by the caller."""
        inputs = self._x(rows)
        self._model.check(inputs.matrix() if hasattr(inputs, "matrix") else inputs)

    def outputs(self, inputs: Any) -> Any:
        """As the model nests them."""
        predict = loaded(self._model, self._among)
        if hasattr(inputs, "matrix"):  # columns of a table
            by_name = inputs.as_table if predict.by_name is None else predict.by_name
            inputs = inputs if by_name else inputs.matrix()
        inputs = nesting.native(inputs)
        if self._found is None:
            self._found = self._agreed(predict, inputs)
        rows = nesting.count(inputs)
        if predict.fixed:  # another size would be compiled anew, for no more than the rows at the end of a source
            rows = self._longest = max(rows, self._longest)
        return batching.batched(predict, inputs, even(rows, self._found))

    def _agreed(self, predict: Predict, inputs: Any) -> int:
        """The size that the first worker to ask has found: with one size, numbers do not depend on who predicts."""
        task = here()
        path = task.shared / f"batch-{self._model.digest}"
        if path.exists():
            return int(path.read_text())
        limit = limit_of(task.memory)
        return int(settle(path, str(sizing.best_size(predict, inputs, limit, changes_nothing=self.changes_nothing))))
