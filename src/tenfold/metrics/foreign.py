"""Metrics of others: people's own, Keras's, and those of torchmetrics and torcheval. Nothing of theirs is imported.

Only a metric with a state that merges can be scored in parts. Keras does not say how its states merge, but nearly all
are sums over rows; whether one is, is tried on the first block of each process. scikit-learn's functions have no
state and are refused.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.frameworks.keras.archive import untracked
from tenfold.metrics.port import Array, Family, Metric, Readings, Value

SUMS = ("sum", "none", None)
"""What Keras calls variables whose values are added up over devices; those that say nothing are tried."""


class Foreign(Family):
    """What they share: rows are not looked at, and no state is shared."""

    def __init__(self, metric: Any, name: str) -> None:
        self.metric = metric
        self.name = name

    @property
    def kin(self) -> Hashable:
        return "foreign", id(self)

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true, given = (
            array.astype(array.dtype.newbyteorder("="), copy=False) for array in map(numpy.asarray, (truth, predicted))
        )
        if len(true) != len(given):
            raise BadCall(f"truth has {len(true)} rows and predicted has {len(given)}: expected as many")
        return Readings((true, given))


class Own(Foreign):
    """Anything with init, update, merge and result."""

    def __init__(self, metric: Metric, name: str) -> None:
        super().__init__(metric, name)
        parameters = list(inspect.signature(metric.update).parameters.values())
        placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        self._fourth = len(placed) >= 4 or any(each.kind is each.VAR_POSITIONAL for each in parameters)
        self.weighs = self._fourth or any(
            each.kind is each.VAR_KEYWORD or (each.kind is each.KEYWORD_ONLY and each.name == "weight")
            for each in parameters
        )

    def gather(self, readings: Readings, weight: Array | None) -> Any:
        true, given = _copied(readings)
        weight = None if weight is None else weight.copy()
        if len(true) == 0:
            return None
        state = self.metric.init()
        if self._fourth:
            state = self.metric.update(state, true, given, weight)
        elif self.weighs:
            state = self.metric.update(state, true, given, weight=weight)
        else:
            state = self.metric.update(state, true, given)
        if state is None:
            raise BadCall(f"{self.name}.update() returned None: it must return the state, changed or new")
        return state

    def join(self, a: Any, b: Any) -> Any:
        return self.metric.merge(a, b)

    def value(self, state: Any, labels: Array | None) -> Value:
        return _settled(self.metric.result(state))

    def empty(self) -> Value:
        return _settled(self.metric.result(self.metric.init()))


@dataclass(frozen=True, slots=True)
class Summed:
    """The state of a Keras metric."""

    values: tuple[Array, ...]
    """Its variables, as float64."""
    sample: tuple[Array, Array]
    """One row, since some metrics make their variables only when they have seen one."""


class KerasMetric(Foreign):
    """A Keras metric whose variables are sums over rows."""

    def __init__(self, metric: Any, name: str) -> None:
        super().__init__(metric, name)
        self._make, self._settings = _recipe(metric)
        self._tried = False
        parameters = inspect.signature(metric.update_state).parameters.values()
        needed = [each for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
        if len(needed) != 2:
            raise BadCall(f"{name}: its update_state takes {len(needed)} values; expected truth and predictions")
        self.weighs = "sample_weight" in inspect.signature(metric.update_state).parameters
        for variable in metric.variables:
            if getattr(variable, "aggregation", "sum") not in SUMS:
                raise BadCall(
                    f"{name}: its variable {variable.name} is not a sum over rows ({variable.aggregation!r}), so it "
                    f"cannot be scored in parts; {_instead()}"
                )

    def __getstate__(self) -> dict[str, Any]:
        # Its variables belong to the backend of this process; the configuration does not.
        return {**self.__dict__, "metric": None, "_tried": False}

    def read(self, truth: object, predicted: object, first: int = 0) -> Readings:
        true, given = super().read(truth, predicted, first).columns
        if (
            given.ndim == 1
        ):  # Keras's own loops make columns of them too; it takes the mean over the last axis as a row's
            true, given = true[:, None] if true.ndim == 1 else true, given[:, None]
        return Readings((true, given))

    def gather(self, readings: Readings, weight: Array | None) -> Summed | None:
        true, given = readings.columns
        if len(true) == 0:
            return None
        values = self._sums(true, given, weight)
        if not self._tried and len(true) > 1:
            self._try(values, true, given, weight)
        return Summed(values, (true[:1], given[:1]))

    def join(self, a: Summed, b: Summed) -> Summed:
        return Summed(tuple(one + other for one, other in zip(a.values, b.values, strict=True)), a.sample)

    def value(self, state: Summed, labels: Array | None) -> Value:
        self._sums(*state.sample, None)
        metric = self._here()
        for variable, value in zip(metric.variables, state.values, strict=True):
            variable.assign(value.astype(str(variable.dtype)))
        return _plain(metric.result())

    def _here(self) -> Any:
        if self.metric is None:
            self.metric = self._make(**self._settings)
        return self.metric

    def _sums(self, true: Array, given: Array, weight: Array | None) -> tuple[Array, ...]:
        metric = self._here()
        metric.reset_state()
        metric.update_state(true, given, **({} if weight is None else {"sample_weight": weight}))
        return tuple(numpy.asarray(variable, dtype=numpy.float64) for variable in metric.variables)

    def _try(self, whole: tuple[Array, ...], true: Array, given: Array, weight: Array | None) -> None:
        cut = len(true) // 2
        halves = [
            self._sums(true[rows], given[rows], None if weight is None else weight[rows])
            for rows in (slice(None, cut), slice(cut, None))
        ]
        for one, first, second in zip(whole, *halves, strict=True):
            near = 1e-4 * max(1.0, float(numpy.abs(one).max(initial=0)))  # they are float32
            if not numpy.allclose(one, first + second, rtol=1e-3, atol=near):
                raise BadCall(
                    f"{self.name}: the state of all rows is not the sum of the states of two halves, so it cannot be "
                    f"scored in parts; {_instead()}"
                )
        self._tried = True


class TorchMetric(Foreign):
    """An object with update(predicted, truth), compute() and merge_state(), as torchmetrics and torcheval have them."""

    weighs = False

    def __init__(self, metric: Any, name: str) -> None:
        super().__init__(copy.deepcopy(metric), name)
        # torcheval merges a list of metrics, torchmetrics one.
        self._several = next(iter(inspect.signature(metric.merge_state).parameters), "") == "metrics"
        modules = {kind.__module__.partition(".")[0] for kind in type(metric).__mro__}
        self._tensors = bool(modules & {"torch", "torchmetrics", "torcheval"})

    def gather(self, readings: Readings, weight: Array | None) -> Any:
        true, given = _copied(readings)
        if len(true) == 0:
            return None
        state = copy.deepcopy(self.metric)
        state.update(*(self._given(array) for array in (given, true)))
        return state

    def join(self, a: Any, b: Any) -> Any:
        a = copy.deepcopy(a)
        a.merge_state([b] if self._several else b)
        return a

    def value(self, state: Any, labels: Array | None) -> Value:
        return _plain(copy.deepcopy(state).compute())

    def _given(self, array: Array) -> Any:
        if not self._tensors:
            return array
        import torch

        return torch.from_numpy(numpy.ascontiguousarray(array))


def adapted(metric: Any, name: str) -> Family | None:
    """A metric of somebody else, or None where it is not one that merges."""
    if all(callable(getattr(metric, method, None)) for method in ("init", "update", "merge", "result")):
        return Own(metric, name)
    if all(hasattr(metric, member) for member in ("update_state", "result", "reset_state", "variables", "get_config")):
        return KerasMetric(metric, name)
    if all(callable(getattr(metric, method, None)) for method in ("update", "compute", "merge_state")):
        return TorchMetric(metric, name)
    return None


def _recipe(metric: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """How to make a Keras metric again in another process, where its variables cannot go."""
    kind = type(metric)
    if kind.__name__ == "MeanMetricWrapper":  # its configuration has the function's name only, and may be a lambda's
        return kind, {"fn": metric._fn, "name": metric.name, "dtype": metric.dtype, **metric._fn_kwargs}
    return _configured, {"kind": kind, "config": untracked(metric.get_config())}


def _configured(kind: Any, config: dict[str, Any]) -> Any:
    return kind.from_config(config)


def _instead() -> str:
    return "write an object with init, update, merge and result, or predict first and compute it from all predictions"


def _copied(readings: Readings) -> tuple[Array, ...]:
    """Truth and predictions for a metric that may write to them: others count the same rows."""
    return tuple(column.copy() for column in readings.columns)


def _settled(value: Any) -> Value:
    """Numbers of NumPy's and of frameworks as Python's: others are no numbers where scores are shown or drawn again."""
    if isinstance(value, dict):
        return {key: _settled(each) for key, each in value.items()}
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _plain(value: Any) -> Value:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = numpy.asarray(value)
    return float(array) if array.ndim == 0 else array
