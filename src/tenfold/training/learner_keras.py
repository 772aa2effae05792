"""A Keras model as one copy among several: what all backends have in common.

Layers that look at a whole batch, such as batch normalisation, see a worker's share of it; moving averages are averaged
over workers, by their shares. Frozen layers are not sent. Layers that draw random numbers draw others in each worker.
A variable that has no gradient counts as one whose gradient is zero. Losses that layers add count as means over rows,
as regularisers of activities are.

    vector:  gradient | growth of moving averages | growth of counters | sums of loss and metrics
    weights: trained  | moving averages
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.fuse.building import Member, add_metrics
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import Weights
from tenfold.training import keras_checks
from tenfold.training.keras_pass import Pass, Variables, size, variables
from tenfold.work.seeds import number

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class KerasLearner(ABC):
    """One copy of a compiled Keras model."""

    takes_devices = False
    device: Any = None

    def __init__(self, fit: Fit, member: Member, built: Any) -> None:
        self._model = built
        self._index = member.index
        self._batch_size = fit.batch_size
        if fit.metrics:
            add_metrics(built, fit.metrics)
        few = Reading(fit, [member], alone=True).sample.take(slice(0, keras_checks.ASKED))
        self._sample = standard(few)
        sample = self._sample.take(slice(0, 1))
        built._symbolic_build(data_batch=sample.parts)
        built.reset_metrics()
        keras_checks.check(fit, built)
        self.optimizer = built.optimizer
        if not self.optimizer.built:
            self.optimizer.build(built.trainable_variables)
        self._variables: Variables = variables(built)
        self._pass = Pass(built, self._variables, sample)
        self._sums = numpy.zeros(size(self._variables.metrics))
        self.gradient_size = size(self._variables.trained)
        self.weights_size = size(self._variables.learned)
        self.sums_size = len(self._sums)
        self.size = self.weights_size + size(self._variables.counters) + self.sums_size
        if self._index:
            self._draw_others()

    def check_shares(self) -> None:
        keras_checks.check_shares(self._model, self._sample)

    # -- of each backend ------------------------------------------------------------------------------------------

    @abstractmethod
    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: numpy.ndarray) -> None: ...

    @abstractmethod
    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]: ...

    @abstractmethod
    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None: ...

    @abstractmethod
    def write_weights(self, into: numpy.ndarray) -> None: ...

    @abstractmethod
    def read_weights(self, run: numpy.ndarray) -> None: ...

    @abstractmethod
    def _apply(self, total: numpy.ndarray) -> None:
        """One step of the optimizer, with a vector of all workers."""

    @abstractmethod
    def _score(self, block: Columns, rows: numpy.ndarray, share: float) -> numpy.ndarray:
        """Sums of loss and metrics of these rows."""

    def count(self, updates: int) -> None:
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        # Without a schedule, what depends on the count is of this copy's own steps: how far means have come from zero.
        if callable(inner._learning_rate) and not inner.gradient_accumulation_steps:
            self._set(inner.iterations, updates)

    def _set(self, variable: Any, value: int) -> None:
        variable.assign(value)

    # -- sums -----------------------------------------------------------------------------------------------------

    def whole(self, total: numpy.ndarray) -> numpy.ndarray:
        return total

    def apply(self, total: numpy.ndarray) -> float:
        self._apply(total)
        return self._note(total[-self.sums_size :])

    def score(self, block: Columns, rows: numpy.ndarray | None, into: numpy.ndarray) -> None:
        everything = numpy.arange(len(block), dtype=numpy.int32) if rows is None else rows
        if len(everything):  # part of a batch of the size that Keras would score at a time: a loss may be a sum
            into[-self.sums_size :] += self._score(block, everything, len(everything) / self._batch_size)

    def close(self, logs: dict[str, float]) -> None:  # noqa: B027
        """Nothing: a schedule of Keras is a part of its optimizer."""

    def begin(self) -> None:
        self._sums[:] = 0

    def logs(self, total: numpy.ndarray | None = None) -> dict[str, float]:
        import keras

        known = self._variables.metrics
        sums = self._sums if total is None else total[-self.sums_size :]
        cuts = numpy.cumsum([size([variable]) for variable in known])[:-1]
        parts = [part.reshape(v.shape).astype(v.dtype) for v, part in zip(known, numpy.split(sums, cuts), strict=True)]
        with keras.StatelessScope([(v, keras.ops.convert_to_tensor(p)) for v, p in zip(known, parts, strict=True)]):
            found = self._model.get_metrics_result()
        return {name: float(keras.ops.convert_to_numpy(value)) for name, value in found.items()}

    def _note(self, sums: numpy.ndarray) -> float:
        """Add what a batch has added; its loss."""
        self._sums += sums
        return float(sums[0] / sums[1])

    def _scaled(
        self, gradients: list[Any], *, back: bool = False, scale: Callable[[Any], Any] | None = None
    ) -> list[Any]:
        """As the optimizer wants them, where it scales the loss; or back."""
        import keras

        if not hasattr(self.optimizer, "inner_optimizer") and self.optimizer.loss_scale_factor is None:
            return gradients
        by = (scale or self.optimizer.scale_loss)(keras.ops.ones(()))
        change = keras.ops.divide if back else keras.ops.multiply
        return [keras.ops.cast(change(one, by), one.dtype) for one in gradients]

    # -- what it has learned --------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        return [self._index, [_array(variable) for variable in self._kept()], self._sums.copy()]

    def put(self, state: list[Any]) -> None:
        index, arrays, sums = state
        for variable, array in zip(self._kept(), arrays, strict=True):
            variable.assign(array)
        self._sums[:] = sums
        if index != self._index:
            self._draw_others()

    def copied(self) -> list[Any]:
        known = self._variables
        return [_array(v) for v in (*known.learned, *known.counters, *known.constants, *known.optimizer)]

    def weights(self) -> Weights:
        return trained_weights(self._model)

    def _kept(self) -> list[Any]:
        return [*self._variables.state, *self._variables.optimizer]

    def _draw_others(self) -> None:
        """Random numbers of this worker's own, from those that all would have."""
        for variable in self._variables.seeds:
            seed, drawn = (int(value) for value in _array(variable).reshape(-1))
            own = number(seed & 0xFFFFFFFF, self._index) & 0x7FFFFFFF  # some backends keep it as int32
            variable.assign(numpy.array([own, drawn], str(variable.dtype)))


def trained_weights(model: Any) -> Weights:
    """What `fit` leaves in a model."""
    found = {id(variable): _array(variable) for variable in model.weights}
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if getattr(optimizer, "use_ema", False):  # at the end, Keras replaces weights by their averages
        averages = zip(model.trainable_variables, optimizer._model_variables_moving_average, strict=True)
        found |= {id(variable): _array(average) for variable, average in averages if average is not None}
    return [found[id(variable)] for variable in model.weights]


def too_few(devices: int, there: str) -> str:
    """What is said where a process has not as many as it was to have."""
    return (
        f"devices={devices}: {there} in this process, and its devices are fixed when it starts; "
        'engine="local" starts one for each worker'
    )


def places(rows: numpy.ndarray) -> numpy.ndarray:
    """Row numbers, as compiled functions take them."""
    return numpy.asarray(rows, numpy.int32)


def standard(block: Columns) -> Columns:
    """Floats as Keras has them; the rest as it is."""
    import keras

    def convert(array: Any) -> Any:
        if array is None or array.dtype.kind != "f" or array.dtype == numpy.float16:
            return array
        return numpy.asarray(array, keras.config.floatx())

    x, y, weight = mapped(convert, (block.x, block.y, block.weight))
    return Columns(x, y, weight)


def _array(variable: Any) -> numpy.ndarray:
    import keras

    return numpy.array(keras.ops.convert_to_numpy(variable.value))
