"""In a worker: what a Keras model is as a program for XLA, and which models are copies of one another.

Keras has the JAX backend here, whatever the caller's is. A model's own `train_step` is the step: losses, metrics,
regularisers, schedules and weights are Keras's code, not ours. Models of built-in layers are compared by their
configuration first, which is quick; the rest by what they do (`program`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.fuse import program
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.portrait import Portrait
from tenfold.work.run import Declined

QUICK = "jax_disable_most_optimizations"

State = tuple[list[Any], list[Any], list[Any], list[Any]]
"""Trainable, non-trainable, optimizer's and metrics' variables."""


def check_backend() -> None:
    """Decline where models cannot be programs for XLA in this process."""
    import keras

    if keras.backend.backend() != "jax":
        raise Declined(
            f"Keras in this process has the {keras.backend.backend()} backend; only on JAX can models be fused"
        )


@contextlib.contextmanager
def quick_compilations() -> Iterator[None]:
    """For what runs once: initial weights are computed by programs that take longer to optimise than to run."""
    jax = sys.modules.get("jax")
    if jax is None:
        yield
        return
    before = jax.config.values[QUICK]
    jax.config.update(QUICK, True)
    try:
        yield
    finally:
        jax.config.update(QUICK, before)


def standard(data: Columns) -> Any:
    """The columns as Keras would give them to a model: float64 becomes floatx, int64 becomes int32."""
    import keras

    def convert(array: Any) -> Any:
        if array is None:
            return None
        if array.dtype.kind == "f" and array.dtype != numpy.float16:
            return numpy.asarray(array, keras.config.floatx())
        return numpy.asarray(array, numpy.int32) if array.dtype in (numpy.int64, numpy.uint64, numpy.uint32) else array

    return mapped(convert, data.parts)


def shapes_of(batch: Any, rows: int) -> Any:
    """What a batch of so many rows looks like."""
    import jax

    return mapped(
        lambda array: None if array is None else jax.ShapeDtypeStruct((rows, *array.shape[1:]), array.dtype), batch
    )


class Blueprint:
    """A model that was built, from which all models like it take everything but their variables' values."""

    def __init__(self, model: Any, sample: Any, signature: str | None) -> None:
        self.model = model
        self.signature = signature
        with quick_compilations():
            model._symbolic_build(data_batch=mapped(_batch_of_one, sample))
            model.reset_metrics()
        self._sample = sample
        self._traced: dict[tuple[str, int], program.Program] = {}
        paths = [variable.path for variable in model.optimizer.variables]
        self._rate_at = [place for place, path in enumerate(paths) if path.rpartition("/")[2] == "learning_rate"]
        self._optimizer = _values(model.optimizer.variables)
        self.metrics = _values(model.metrics_variables)
        trainable = {id(variable): place for place, variable in enumerate(model.trainable_variables)}
        others = {id(variable): place for place, variable in enumerate(model.non_trainable_variables)}
        self._weights_at = [(0, trainable[id(v)]) if id(v) in trainable else (1, others[id(v)]) for v in model.weights]

    def state(self, model: Any) -> State:
        """The state of a model of this blueprint before its first step."""
        optimizer = list(self._optimizer)
        if model is not self.model:
            for place in self._rate_at:
                rate = getattr(model.optimizer, "inner_optimizer", model.optimizer)._learning_rate
                optimizer[place] = numpy.asarray(rate.value)
        return _values(model.trainable_variables), _values(model.non_trainable_variables), optimizer, list(self.metrics)

    def weights(self, trainable: Sequence[Any], others: Sequence[Any]) -> list[numpy.ndarray]:
        """As `model.get_weights()` orders them."""
        return [numpy.array((trainable, others)[kind][place]) for kind, place in self._weights_at]

    # -- the functions of a program -------------------------------------------------------------------------------

    def train(self, state: State, batch: Any) -> State:
        _, state = self.model.train_step(state, batch)
        return state

    def test(self, state: State, batch: Any) -> State:
        trainable, others, optimizer, metrics = state
        _, (_, _, metrics) = self.model.test_step((trainable, others, metrics), batch)
        return trainable, others, optimizer, metrics

    def logs(self, metrics: Any) -> dict[str, Any]:
        import keras

        pairs = list(zip(self.model.metrics_variables, metrics, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return dict(self.model.get_metrics_result())

    def traced(self, name: str, rows: int) -> program.Program:
        """`train` or `test` for a batch of so many rows, as a program."""
        if (name, rows) not in self._traced:
            state = self.state(self.model)
            function = {"train": self.train, "test": self.test}[name]
            self._traced[name, rows] = program.trace(function, state, shapes_of(self._sample, rows))
        return self._traced[name, rows]

    def portrait(self) -> Portrait:
        shapes = {variable.path: tuple(variable.shape) for variable in self.model.weights}
        return Portrait(shapes, json.loads(self.signature) if self.signature is not None else None)

    @functools.cached_property
    def averages(self) -> bool:
        """Whether scores are the same for batches of any size: losses that are means, and code of Keras only."""
        losses = [loss for loss in _flat(self.model._compile_loss) if hasattr(loss, "reduction")]
        return self.signature is not None and all(loss.reduction == "sum_over_batch_size" for loss in losses)


@dataclass(frozen=True, slots=True)
class Built:
    """One model, ready to be trained."""

    blueprint: Blueprint
    """What it is a copy of."""
    state: State
    """Its variables, as arrays."""


class Drawings:
    """The blueprints of one `Fit` in this process."""

    def __init__(self, sample: Any) -> None:
        self._sample = sample
        self._known: dict[str, Blueprint] = {}

    def copy(self, model: Any) -> Built:
        """Find what the model is a copy of; declines what cannot be a program for XLA."""
        _decline_custom(model)
        signature = signature_of(model)
        known = self._known.get(signature) if signature is not None else None
        if known is not None and model.built:
            return Built(known, known.state(model))
        own = Blueprint(model, self._sample, signature)
        if signature is not None:
            self._known.setdefault(signature, own)
        return Built(known or own, own.state(model))


def _values(variables: Any) -> list[Any]:
    return [numpy.asarray(variable.value) for variable in variables]


def _batch_of_one(array: Any) -> Any:
    return None if array is None else array[:1]


def add_metrics(model: Any, metrics: Sequence[Any]) -> None:
    """Compile the model again, with metrics besides its own."""
    settings = dict(model._compile_config.config) if model._compile_config is not None else {}
    settings |= {"optimizer": model.optimizer, "loss": model.loss}
    model.compile(**settings | {"metrics": [*(settings.get("metrics") or ()), *metrics]})


def _flat(compiled: Any) -> list[Any]:
    return list(getattr(compiled, "_flat_losses", None) or []) if compiled is not None else []


def _decline_custom(model: Any) -> None:
    from keras.src.backend.jax.trainer import JAXTrainer

    for name in ("train_step", "test_step", "fit"):
        if getattr(type(model), name) is not getattr(JAXTrainer, name):
            raise Declined(f"{type(model).__name__} has a {name} of its own")
    if model.run_eagerly:
        raise Declined("the model is compiled with run_eagerly=True")
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if getattr(optimizer, "use_ema", False):
        raise Declined("the optimizer averages weights (use_ema=True) and replaces them at the end")


# -- configurations -------------------------------------------------------------------------------------------------


def signature_of(model: Any) -> str | None:
    """The configuration as text, without the learning rate; None where code of the user's own may do anything."""
    try:
        with _without_tensorflow():
            parts = [model.get_config(), model.get_compile_config()]
    except Exception:  # custom classes without a configuration
        return None
    if type(model).__module__.partition(".")[0] != "keras" or not all(map(_is_built_in, parts)):
        return None
    optimizer = parts[1].get("optimizer")
    settings = optimizer.get("config", {}) if isinstance(optimizer, dict) else {}
    if isinstance(settings.get("learning_rate"), float):
        settings["learning_rate"] = None  # a variable, not part of the program
    return json.dumps(parts, sort_keys=True, default=repr)


@contextlib.contextmanager
def _without_tensorflow() -> Iterator[None]:
    """Keras imports TensorFlow (3 s) to see whether a configuration holds anything of its."""
    from keras.src.utils import module_utils

    lazy = module_utils.tensorflow
    if "tensorflow" in sys.modules or getattr(lazy, "_available", True) is not None:
        yield
        return
    lazy._available = False
    try:
        yield
    finally:
        lazy._available = None


def _is_built_in(config: Any) -> bool:
    if isinstance(config, dict):
        name, module = config.get("class_name"), config.get("module")
        if name == "Lambda" or (name is not None and "module" in config and not str(module).startswith("keras")):
            return False
        return all(map(_is_built_in, config.values()))
    if isinstance(config, list | tuple):
        return all(map(_is_built_in, config))
    return config is None or isinstance(config, str | int | float | bool | numpy.generic)
