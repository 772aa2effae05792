"""A Keras model's way from some rows to their part of the loss, without changing a variable: the same on every backend.

Variables have their values from a list, and new ones are read from Keras's stateless scope. So a gradient leaves the
model as it is, and metrics count from zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns, leaves, mapped
from tenfold.training import keras_checks


@dataclass(frozen=True, slots=True)
class Variables:
    """Those of a model, by what becomes of them in a step."""

    trained: list[Any]
    """By the optimizer."""
    averages: list[Any]
    """Learned without a gradient: batch norm's means. What they have grown by adds up over workers, by their shares."""
    counters: list[Any]
    """Whole numbers: what they have grown by is the same on all workers that have rows."""
    constants: list[Any]
    """Of frozen layers: read, and never changed."""
    seeds: list[Any]
    """States of random generators: each worker has its own."""
    metrics: list[Any]
    """States of loss and metrics."""
    optimizer: list[Any]
    """The optimizer's own."""

    @property
    def learned(self) -> list[Any]:
        """All weights that are one run of float32."""
        return [*self.trained, *self.averages]

    @property
    def growing(self) -> list[Any]:
        """All that changes without a gradient, in the model."""
        return [*self.averages, *self.counters]

    @property
    def state(self) -> list[Any]:
        """What a pass reads."""
        return [*self.trained, *self.averages, *self.counters, *self.constants, *self.seeds]


def variables(model: Any) -> Variables:
    """Of a model that is built, and its optimizer too."""
    weights = {id(variable) for variable in model.weights}
    trained = {id(variable) for variable in model.trainable_variables}
    metrics = {id(variable) for variable in model.metrics_variables}
    rest = [v for v in model.variables if id(v) not in trained and id(v) not in metrics]
    frozen = {id(v) for layer in model._flatten_layers() for v in layer._trainable_variables}
    others = [v for v in rest if id(v) in weights and id(v) not in frozen]
    return Variables(
        list(model.trainable_variables),
        [v for v in others if _is_float(v)],
        [v for v in others if not _is_float(v)],
        [v for v in rest if id(v) in weights and id(v) in frozen],
        [v for v in rest if id(v) not in weights],
        list(model.metrics_variables),
        list(model.optimizer.variables),
    )


def _is_float(variable: Any) -> bool:
    return "float" in str(variable.dtype)


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of some rows."""

    part: Any
    """Their part of the global batch's loss."""
    averages: Sequence[Any] = field(repr=False)
    """New values."""
    counters: Sequence[Any] = field(repr=False)
    """New values."""
    seeds: Sequence[Any] = field(repr=False)
    """New values."""
    sums: Any = field(repr=False)
    """What they add to the states of loss and metrics, as one vector of float32."""


class Pass:
    """Of one model."""

    def __init__(self, model: Any, found: Variables, sample: Columns) -> None:
        import keras

        self._model = model
        self._variables = found
        self._sums_rows = keras_checks.sums_rows(model)
        self._outputs = list(model._compile_loss.metrics) if model._compile_loss is not None else []
        self._counts_batches = keras.backend.backend() == "tensorflow"  # in the loss of each output; others count rows
        self._by_share = keras_checks.by_share(model, sample)
        self._metrics = keras_checks.flat_metrics(model)

    def __call__(
        self,
        values: Sequence[Any],
        data: Any,
        share: Any,
        count: Any,
        *,
        training: bool,
        watch: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> Passed:
        """`values` of `Variables.state`; so many rows of data, which are this share of a batch.

        Metrics are computed in a context of `watch`, where nothing needs a gradient.
        """
        import keras

        model, known = self._model, self._variables
        zeros = [keras.ops.zeros(v.shape, v.dtype) for v in known.metrics]
        pairs = [*zip(known.state, values, strict=True), *zip(known.metrics, zeros, strict=True)]
        model._clear_losses()
        with keras.StatelessScope(pairs, collect_losses=True) as scope:
            x, y, weight = data
            before = [scope.get_current_value(variable) for variable in known.trained]
            outputs = model(x, training=training) if model._call_has_training_arg else model(x)
            self._refuse_masks(outputs)
            self._refuse_assigned(before, scope.get_current_value)
            loss = model._compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=training)
            part = share * loss
            if self._sums_rows:
                part = part + (1.0 - share) * (loss - sum(map(keras.ops.sum, model.losses)))
            with watch():
                if model._compile_metrics is not None:
                    model._compile_metrics.update_state(y, outputs, weight)
                sums = self._sums(scope.get_current_value, part, share, count)
        averages, counters, seeds = (
            [scope.get_current_value(v) for v in group] for group in (known.averages, known.counters, known.seeds)
        )
        return Passed(part, averages, counters, seeds, sums)

    def _sums(self, now: Callable[[Any], Any], part: Any, share: Any, count: Any) -> Any:
        """What one batch of all workers would have added, this share of it."""
        found: list[Any] = []
        for metric in self._metrics:
            states = [now(variable) for variable in metric.variables]
            if metric is self._model._loss_tracker:
                states = [part * (count / share), count]
            elif any(metric is one for one in self._outputs):
                by = share if self._counts_batches else count
                states = [states[0] / states[1] * (by / share if self._sums_rows else by), by]
            elif any(metric is one for one in self._by_share):
                states = [state * share for state in states]
            found += states
        return flat(found)

    def _refuse_assigned(self, before: Sequence[Any], now: Callable[[Any], Any]) -> None:
        """On JAX, Keras itself leaves such an assignment out."""
        import keras

        if keras.backend.backend() == "jax":
            return
        for variable, value in zip(self._variables.trained, before, strict=True):
            if now(variable) is not value:
                raise BadCall(
                    f"the model assigns {variable.path} in its call (as SpectralNormalization does), which is trained "
                    'by gradients, too, and no sum of them says so; train it by tenfold.map with Fit(how="alone")'
                )

    def _refuse_masks(self, outputs: Any) -> None:
        from keras.src import backend  # masks are attributes of tensors on some backends only

        if any(backend.get_keras_mask(output) is not None for output in leaves(outputs)):
            raise BadCall(
                "the model's outputs are masked, so that its loss is a mean over what is not, and a worker does not "
                "know how much of the batch that is; end the mask before the last layer, or train it by tenfold.map"
            )


def flat(tensors: Sequence[Any]) -> Any:
    """One vector of float32, of tensors of the backend."""
    from keras import ops

    return ops.concatenate([ops.zeros((0,)), *(ops.reshape(ops.cast(t, "float32"), (-1,)) for t in tensors)])


def cut(vector: Any, variables: Sequence[Any], start: int = 0) -> list[Any]:
    """A vector's parts, of the shapes and types of variables."""
    from keras import ops

    parts = []
    for variable in variables:
        stop = start + size([variable])
        parts.append(ops.cast(ops.reshape(vector[start:stop], variable.shape), variable.dtype))
        start = stop
    return parts


def growth(share: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    """What a share adds to variables that are learned without a gradient: to constants nothing, to the bit."""
    from keras import ops

    return [share * ops.cast(after - _base(before), "float32") for after, before in zip(new, old, strict=True)]


def grown(total: Any, found: Variables, old: Sequence[Any], start: int) -> list[Any]:
    """New values of all that grows, from the sum of what shares have added."""
    from keras import ops

    stop = start + size(found.averages)
    grown = [*cut(total, found.averages, start), *cut(ops.round(total[stop:]), found.counters)]
    return [_base(before) + one for before, one in zip(old, grown, strict=True)]


def _base(value: Any) -> Any:
    """What is infinite is sent as it is: it grows from nothing."""
    from keras import ops

    return ops.nan_to_num(value, 0.0, 0.0, 0.0)


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def size(variables: Sequence[Any]) -> int:
    return sum(int(numpy.prod(variable.shape, dtype=numpy.int64)) for variable in variables)


def nested(like: Any, tensors: Sequence[Any]) -> Any:
    """Tensors as the columns `like` are nested, with None where those have nothing."""
    following = iter(tensors)
    return mapped(lambda leaf: None if leaf is None else next(following), like)
