"""In a worker: what a Keras model is as a program for XLA, and which models are copies of one another.

Keras has the JAX backend here, whatever the caller's is. A model's own `train_step` is the step: losses, metrics,
regularisers, schedules and weights are Keras's code, not ours. Models of built-in layers are compared by their
configuration first, which is quick; the rest by what they do (`program`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.frameworks.jax import quick_compilations
from tenfold.frameworks.keras.archive import tensorflow_left_alone
from tenfold.fuse import program
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.fit import ONLY_ON_JAX
from tenfold.fuse.notes import Note, Notebook
from tenfold.fuse.portrait import Portrait
from tenfold.work.run import Declined

KEPT = 256  # blueprints
TOLD = ("model", "compile", "beside", "arrays")
"""What the parts of a signature are called in messages."""

State = tuple[list[Any], list[Any], list[Any], list[Any]]
"""Trainable, non-trainable, optimizer's and metrics' variables."""


def check_backend() -> None:
    """Decline where models cannot be programs for XLA in this process."""
    import keras

    if keras.backend.backend() != "jax":
        raise Declined(f"Keras in this process has the {keras.backend.backend()} backend; {ONLY_ON_JAX}")


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


@dataclass(frozen=True, slots=True)
class Samples:
    """One row of each kind of data, for shapes: weights may be on one side only."""

    training: Any
    """x, y and perhaps weights."""
    scoring: Any
    """The same, of the rows that models are scored on."""
    shown: Any
    """x of the rows whose outputs are asked for."""


class Blueprint:
    """A model that was built, from which all models like it take everything but their variables' values."""

    def __init__(self, model: Any, samples: Samples, signature: str | None) -> None:
        self.model = model
        self.signature = signature
        with quick_compilations():
            model._symbolic_build(data_batch=samples.training)
            model.reset_metrics()
        self._samples = samples
        self._traced: dict[tuple[str, int], program.Program] = {}
        self._noted: dict[tuple[str, int], Note] = {}
        self._learned: set[tuple[str, int]] = set()
        paths = [variable.path for variable in model.optimizer.variables]
        self.rate_at = [place for place, path in enumerate(paths) if path.rpartition("/")[2] == "learning_rate"]
        self._optimizer = _values(model.optimizer.variables)
        self.metrics = _values(model.metrics_variables)
        trainable = {id(variable): place for place, variable in enumerate(model.trainable_variables)}
        others = {id(variable): place for place, variable in enumerate(model.non_trainable_variables)}
        self._weights_at = [(0, trainable[id(v)]) if id(v) in trainable else (1, others[id(v)]) for v in model.weights]

    def state(self, model: Any) -> State:
        """The state of a model of this blueprint before its first step."""
        if model.optimizer.built:  # it may have taken steps in `build`
            optimizer = _values(model.optimizer.variables)
        else:
            optimizer = list(self._optimizer)
            for place in self.rate_at:
                optimizer[place] = numpy.asarray(_inner(model.optimizer)._learning_rate.value)
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
        _, (_, others, metrics) = self.model.test_step((trainable, others, metrics), batch)
        return trainable, others, optimizer, metrics

    def predict(self, weights: tuple[Any, Any], x: Any) -> Any:
        outputs, _ = self.model.predict_step(weights, (x,))
        return outputs

    def logs(self, metrics: Any) -> dict[str, Any]:
        import keras

        pairs = list(zip(self.model.metrics_variables, metrics, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return dict(self.model.get_metrics_result())

    def traced(self, name: str, rows: int) -> program.Program:
        """`train`, `test` or `predict` for a batch of so many rows, or `logs`, as a program."""
        if (name, rows) not in self._traced:
            self._traced[name, rows] = self._trace(name, rows)
        return self._traced[name, rows]

    def note(self, name: str, rows: int) -> Note:
        """What tells that program from others: traced here, or as another worker has noted it."""
        if (name, rows) not in self._noted:
            found = self.traced(name, rows)
            self._noted[name, rows] = Note(found.key, found.numbers)
        return self._noted[name, rows]

    def learn(self, notebook: Notebook, functions: Sequence[str], rows: int) -> None:
        """Know this of so many functions, and let others know."""
        wanted = [(name, rows) for name in functions]
        if self._learned.issuperset(wanted):
            return
        known = notebook.read(self._identity()) if self.signature is not None else {}
        self._noted = {**known, **self._noted}
        notes = {one: self.note(*one) for one in wanted}
        if self.signature is not None and not known.keys() >= notes.keys():
            notebook.write({**known, **notes}, self._identity())
        self._learned.update(wanted)

    def _identity(self) -> str:
        """All that decides what is traced."""
        import jax
        import keras

        config = keras.config
        settings = config.floatx(), config.epsilon(), config.image_data_format(), jax.config.jax_enable_x64
        samples = self._samples
        shapes = [str(shapes_of(one, 1)) for one in (samples.training, samples.scoring, samples.shown)]
        return repr((self.signature, shapes, settings))

    def _trace(self, name: str, rows: int) -> program.Program:
        state = self.state(self.model)
        if name == "logs":
            return program.trace(self.logs, state[3])
        if name == "train":
            batch = shapes_of(self._samples.training, rows)
            _decline_assigned(self.model, batch[0])
            return program.trace(self.train, state, batch)
        if name == "predict":
            return program.trace(self.predict, state[:2], shapes_of(self._samples.shown, rows))
        return program.trace(self.test, state, shapes_of(self._samples.scoring, rows))

    def portrait(self) -> Portrait:
        shapes = {variable.path: tuple(variable.shape) for variable in self.model.weights}
        settings = None if self.signature is None else dict(zip(TOLD, json.loads(self.signature), strict=True))
        return Portrait(shapes, settings)

    @functools.cached_property
    def names(self) -> list[str]:
        """Of loss and metrics."""
        import jax

        return list(jax.eval_shape(self.logs, self.metrics))

    @functools.cached_property
    def averages(self) -> bool:
        """Whether scores are the same for batches of any size.

        They are for losses that are means over all rows, in models of Keras's own code that have no masks, by which
        rows of a batch weigh more where others are left out, and that draw nothing while they are scored. A class that
        a loss ignores is such a mask.
        """
        losses = [entry.loss for entry in getattr(self.model._compile_loss, "_flat_losses", None) or ()]
        means = [_is_mean(loss) for loss in losses if loss is not None]
        layers = self.model._flatten_layers()
        masks = any(type(layer).__name__ == "Masking" or getattr(layer, "mask_zero", False) for layer in layers)
        known = self.signature is not None and bool(means) and all(means) and not masks
        return known and self._scores_only()

    def _scores_only(self) -> bool:
        """Whether scoring leaves every variable as it is, but for metrics."""
        jaxpr = self.traced("test", 1).closed.jaxpr
        kept = sum(map(len, self.state(self.model)[:3]))
        return all(after is before for after, before in zip(jaxpr.outvars[:kept], jaxpr.invars[:kept], strict=True))


@dataclass(frozen=True, slots=True)
class Built:
    """One model, ready to be trained."""

    blueprint: Blueprint
    """What it is a copy of."""
    state: State
    """Its variables, as arrays."""


class Drawings:
    """The blueprints of this process, for data of one shape. The last ones are kept: a study comes back to them."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._known: dict[str, Blueprint] = {}

    def copy(self, model: Any) -> Built:
        """Find what the model is a copy of; declines what cannot be a program for XLA."""
        _decline_custom(model)
        signature = signature_of(model)
        known = self._known.get(signature) if signature is not None else None
        if known is not None and model.built:
            return Built(known, known.state(model))
        _decline_float64(model)
        own = Blueprint(model, self._samples, signature)
        if signature is not None:
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known.setdefault(signature, own)
        return Built(known or own, own.state(model))


def _values(variables: Any) -> list[Any]:
    return [numpy.asarray(variable.value) for variable in variables]


def _decline_custom(model: Any) -> None:
    from keras.src.backend.jax.trainer import JAXTrainer

    for name in ("train_step", "test_step", "fit"):
        if getattr(type(model), name) is not getattr(JAXTrainer, name):
            raise Declined(f"{type(model).__name__} has a {name} of its own")
    if model.run_eagerly:
        raise Declined("the model is compiled with run_eagerly=True")
    if getattr(_inner(model.optimizer), "use_ema", False):
        raise Declined("the optimizer averages weights (use_ema=True) and replaces them at the end")


def _decline_float64(model: Any) -> None:
    import jax

    for layer in model._flatten_layers():
        if "float64" in (layer.compute_dtype, layer.variable_dtype) and not jax.config.jax_enable_x64:
            raise Declined(f"layer {layer.name} computes in float64, and JAX in float32")


def _decline_assigned(model: Any, x: Any) -> None:
    """A call that assigns what is trained, as `SpectralNormalization` does: Keras on JAX forgets that with the step."""
    import jax
    import keras

    trained: list[Any] = model.trainable_variables
    found: list[str] = []

    def call(values: Any, x: Any) -> None:
        with keras.StatelessScope(list(zip(trained, values, strict=True))) as scope:
            before = [scope.get_current_value(variable) for variable in trained]
            model(x, training=True) if model._call_has_training_arg else model(x)
            pairs = zip(trained, before, strict=True)
            found.extend(variable.path for variable, value in pairs if scope.get_current_value(variable) is not value)

    jax.eval_shape(call, _values(trained), x)
    if found:
        raise Declined(f"it assigns {found[0]} in its call, which is trained: Keras on JAX leaves that out")


def _is_mean(loss: Any) -> bool:
    ignored = getattr(loss, "ignore_class", None) is not None
    return getattr(loss, "reduction", None) == "sum_over_batch_size" and not ignored


def _inner(optimizer: Any) -> Any:
    """What takes the steps, where another one scales its gradients."""
    return getattr(optimizer, "inner_optimizer", optimizer)


# -- configurations -------------------------------------------------------------------------------------------------


def signature_of(model: Any) -> str | None:
    """All that decides, as text, without the learning rate; None where code of the user's own may do anything."""
    held = [(place, *own) for place, layer in enumerate(model._flatten_layers()) for own in vars(layer).items()]
    try:
        with tensorflow_left_alone():
            parts = [model.get_config(), model.get_compile_config(), _beside(model), _arrays(held)]
    except Exception:  # custom classes without a configuration
        return None
    known = _is_keras(type(model).__module__) and all(map(_is_built_in, parts))
    if not known or _holds_functions(model, [value for *_, value in held]):
        return None
    optimizer = parts[1].get("optimizer")
    settings = optimizer.get("config", {}) if isinstance(optimizer, dict) else {}
    if isinstance(settings.get("learning_rate"), float):
        settings["learning_rate"] = None  # a variable, not part of the program
    return json.dumps(parts, sort_keys=True, default=repr)


def _beside(model: Any) -> dict[str, Any]:
    """What decides and stands in no configuration: of each weight how it is trained, and what the optimizer keeps."""
    optimizer = _inner(model.optimizer)
    spared = getattr(optimizer, "_exclude_from_weight_decay", ())
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    weights = []
    for variable in model.weights:
        rules = [getattr(variable, name, None) for name in ("regularizer", "constraint")]
        weights.append([variable.path, variable.trainable, id(variable) in spared, *map(_told, rules)])
    return {"weights": weights, "spared": pattern and pattern.pattern, "kept": len(model.optimizer.variables)}


def _told(rule: Any) -> Any:
    kind = type(rule)
    return rule and {"class_name": kind.__name__, "module": kind.__module__, "config": rule.get_config()}


def _arrays(held: Sequence[tuple[int, str, Any]]) -> list[list[Any]]:
    """Arrays that layers hold beside their weights: `Normalization` has means that it was given by `adapt`."""
    import jax

    kinds = numpy.ndarray | jax.Array
    found = [one for one in held if isinstance(one[2], kinds)]
    return [[*where, str(array.dtype), list(array.shape), _digest(array)] for *where, array in found]


def _digest(array: Any) -> str:
    return hashlib.blake2b(numpy.asarray(array).tobytes(), digest_size=16).hexdigest()


def _is_keras(module: str) -> bool:
    return module.partition(".")[0] == "keras"


def _holds_functions(model: Any, held: Sequence[Any]) -> bool:
    """Whether it holds functions of the user's: a configuration may have no more of them than a name of Keras's own."""
    compiled = getattr(model._compile_config, "config", {})
    return any(isinstance(value, types.FunctionType) and not _is_keras(value.__module__) for value in held) or any(
        callable(value) and not _is_keras(getattr(value, "__module__", "") or "") for value in _plain_leaves(compiled)
    )


def _plain_leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _plain_leaves(one)]
    return [leaf for one in value for leaf in _plain_leaves(one)] if isinstance(value, list | tuple) else [value]


def _is_built_in(config: Any) -> bool:
    if isinstance(config, dict):
        name, module = config.get("class_name"), config.get("module")
        if name == "Lambda" or (name is not None and "module" in config and not _is_keras(str(module))):
            return False
        return all(map(_is_built_in, config.values()))
    if isinstance(config, list | tuple):
        return all(map(_is_built_in, config))
    return config is None or isinstance(config, str | int | float | bool | numpy.generic)
