"""Keras models and what learners make of them, compared with `model.fit`. Run in a process of each backend's own."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dividing
import numpy

import tenfold
from tenfold.training.origin import origin

NOISE = numpy.random.default_rng(0)
TRAINED = 66  # 4 batches of 16, and one of 2, of which a worker may have nothing
ROWS = TRAINED + 32
X = NOISE.normal(size=(ROWS, 6)).astype("float32")
CLASSES = numpy.digitize(X[:, 0] + X[:, 1], (-0.7, 0.7))
ONE_HOT = numpy.eye(3, dtype="float32")[CLASSES]
AMOUNTS = (X[:, :1] - X[:, 1:2] * X[:, 2:3]).astype("float64")
WEIGHT = NOISE.uniform(0.2, 3.0, ROWS)
WORDS = NOISE.integers(1, 12, size=(ROWS, 5))
EPOCHS = 10  # 50 steps
COUNTS = {"sgd": (1, 2, 4), "adam": (1, 2, 4)}
"""Shares, computed by two learners in turn; of other cases 3, all computed by one."""
COUNTS_JAX = {"sgd": (2,), "adam": (4,)}
"""There each number of rows is compiled for each learner, and the way of dividing is the same code."""


def compiled(*layers: Any, optimizer: Any = None, loss: Any = "sparse_categorical_crossentropy", **more: Any) -> Any:
    import keras

    model = keras.Sequential(list(layers))
    model.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), loss, **more)
    return model


def dense(units: int = 5, activation: Any = "tanh", **settings: Any) -> Any:
    import keras

    return keras.layers.Dense(units, activation=activation, **settings)


def table(*between: Any, activation: str = "softmax", units: int = 3, **settings: Any) -> Any:
    import keras

    return compiled(keras.Input((6,)), dense(), *between, dense(units, activation), **settings)


def sgd() -> Any:
    import keras

    schedule = keras.optimizers.schedules.ExponentialDecay(0.05, 10, 0.8)
    first = dense(kernel_regularizer="l2", activity_regularizer="l1")
    convolved = (keras.layers.Reshape((5, 1)), keras.layers.Conv1D(2, 3), keras.layers.Flatten())
    layers = (keras.Input((6,)), first, *convolved, dense(3, "softmax"))  # on JAX, steps with one are taken one by one
    return compiled(
        *layers, optimizer=keras.optimizers.SGD(schedule, momentum=0.9), metrics=["accuracy"], weighted_metrics=["acc"]
    )


def adam() -> Any:
    import keras

    clipped = keras.optimizers.AdamW(0.01, weight_decay=0.01, global_clipnorm=0.3, use_ema=True, ema_momentum=0.9)
    return table(optimizer=clipped, loss="categorical_crossentropy", metrics=[keras.metrics.Recall(name="recall")])


def own_mean(y: Any, outputs: Any) -> Any:
    """One number for a batch."""
    import keras

    return keras.ops.mean(keras.ops.abs(keras.ops.cast(y, "float32") - outputs))


def summed() -> Any:
    import keras

    loss = keras.losses.MeanSquaredError(reduction="sum")
    layers = (dense(kernel_regularizer="l2"), dense(1, None))  # without an Input: built from data
    metrics = [own_mean, keras.metrics.R2Score(name="r2"), keras.metrics.RootMeanSquaredError(name="rmse")]
    return compiled(*layers, optimizer=keras.optimizers.SGD(0.003), loss=loss, metrics=metrics)


def words() -> Any:
    import keras

    layers = (keras.Input((5,), dtype="int32"), keras.layers.Embedding(12, 4), keras.layers.Flatten())
    return compiled(*layers, dense(3, "softmax"), metrics=["accuracy"])


def frozen() -> Any:
    """And statistics that are large, which rounding would show in."""
    import keras

    layer, statistics = dense(50), keras.layers.Normalization()
    layer.trainable = False
    statistics.adapt(X * 1000 + 5)
    return compiled(keras.Input((6,)), statistics, layer, dense(3, "softmax"))


def two_outputs() -> Any:
    import keras

    inputs = {name: keras.Input((3,), name=name) for name in ("left", "right")}
    middle = dense()(keras.layers.Concatenate()(list(inputs.values())))
    outputs = {"kind": dense(3, "softmax", name="kind")(middle), "amount": dense(1, None, name="amount")(middle)}
    model = keras.Model(inputs, outputs)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05, clipnorm=0.5), initial_scale=64.0)
    losses = {"kind": "sparse_categorical_crossentropy", "amount": "mse"}
    model.compile(scaled, losses, loss_weights={"kind": 1.0, "amount": 0.5}, metrics={"kind": ["accuracy"]})
    return model


def norm() -> Any:
    import keras

    return table(keras.layers.BatchNormalization(momentum=0.8))


def dropout() -> Any:
    import keras

    return table(keras.layers.BatchNormalization(), keras.layers.Dropout(0.4), optimizer="adam")


PARITY: dict[str, tuple[Callable[..., Any], Any]] = {
    "sgd": (sgd, (X, CLASSES, WEIGHT)),
    "adam": (adam, (X, ONE_HOT)),
    "summed": (summed, (X, AMOUNTS)),
    "words": (words, (WORDS, WORDS[:, 0] % 3)),
    "two outputs": (two_outputs, ({"left": X[:, :3], "right": X[:, 3:]}, {"kind": CLASSES, "amount": AMOUNTS})),
}


def parity_names(backend: str) -> list[str]:
    """The cases of a backend: words are for TensorFlow's slices."""
    return [name for name in PARITY if (backend, name) != ("jax", "words")]


def fit_of(build: Callable[..., Any], data: Any, **settings: Any) -> Any:
    return tenfold.Fit(build, data, **{"epochs": EPOCHS, "batch_size": 16, "validation": 32 / ROWS, **settings})


def parity(name: str) -> dict[str, Any]:
    """Differences from `model.fit`, by the number of shares; and between ways to go."""
    build, data = PARITY[name]
    fit = fit_of(build, data, epochs=EPOCHS if name in COUNTS else 3)
    expected = fit({"seed": dividing.SEED})
    found: dict[str, Any] = {"weights": {}, "history": {}, "same": []}
    is_jax = os.environ["KERAS_BACKEND"] == "jax"
    copies = dividing.learners(fit, 2 if name in COUNTS and not is_jax else 1)
    begun = [copy.state() for copy in copies]
    counts = COUNTS_JAX if is_jax else COUNTS
    for count in counts.get(name, (3,)):
        for copy, state in zip(copies, begun, strict=True):
            copy.put(state)
        as_tensors = os.environ["KERAS_BACKEND"] == "torch" and count == 4
        history = dividing.train(fit, copies, count, dividing.tensor if as_tensors else dividing.array)
        found["weights"][count] = dividing.furthest(copies[-1].weights(), expected.weights)
        found["history"][count] = dividing.apart(history, expected.history)
        found["same"] += [dividing.same(copies[0], copy) for copy in copies]
    alone = copies[0]
    alone.put(begun[0])
    history = dividing.in_one_go(fit, alone)
    found["steps"] = dividing.furthest(alone.weights(), expected.weights)
    told = {name: values for name, values in expected.history.items() if not name.startswith("val_")}
    found["history"]["steps"] = dividing.apart(history, told)
    found["advance"] = dividing.advanced(fit, alone, 3)
    found["first loss and last"] = [expected.history["loss"][0], expected.history["loss"][-1]]
    return found


def batch_norm() -> dict[str, Any]:
    fit = fit_of(norm, (X, CLASSES), epochs=2, validation=None)
    expected = fit({"seed": dividing.SEED})
    copies = dividing.learners(fit, 2)
    begun = copies[0].state()
    dividing.in_one_go(fit, copies[0])
    alone = dividing.furthest(copies[0].weights(), expected.weights)
    copies[0].put(begun)
    dividing.train(fit, copies, 2)
    averages = dividing.values(copies[0].weights())[4]
    return {
        "alone": alone,
        "same": [dividing.same(copies[0], copy) for copy in copies],
        "moved": float(abs(averages).max()),
    }


def constants() -> dict[str, Any]:
    fit = fit_of(frozen, (X * 1000 + 5, CLASSES), epochs=2, validation=None)
    expected = fit({"seed": dividing.SEED})
    copies = dividing.learners(fit, 2)
    begun = copies[0].weights()
    dividing.train(fit, copies, 3)
    weights = copies[0].weights()
    return {
        "apart": dividing.furthest(weights, expected.weights),
        "changed": [not numpy.array_equal(one, other) for one, other in zip(begun, weights, strict=True)],
        "shapes": [one.shape for one in weights],
        "size": copies[0].weights_size,
    }


def random_numbers() -> dict[str, Any]:
    fit = fit_of(dropout, (X, CLASSES), epochs=2)
    first, other, third = dividing.learners(fit, 3)
    vectors = numpy.zeros((3, first.size), numpy.float32)
    block, rows = dividing.batches(fit, 0)[0]
    begun = dividing.same(first, other) and origin(first) == origin(other)
    before = first.state()
    for learner, vector in ((first, vectors[0]), (other, vectors[1]), (first, vectors[2])):
        learner.gradient(block, rows, 1.0, vector)
    again = numpy.zeros_like(vectors[0])
    first.put(before)
    first.gradient(block, rows, 1.0, again)
    third.put(before)  # of the first: it draws numbers of its own nevertheless
    taken = numpy.zeros_like(again)
    third.gradient(block, rows, 1.0, taken)
    return {
        "begin equal": begun,
        "differ": not numpy.array_equal(vectors[0], vectors[1]) and not numpy.array_equal(taken, again),
        "go on": not numpy.array_equal(vectors[0], vectors[2]),
        "again": numpy.array_equal(vectors[0], again),
        "goes on": dividing.goes_on(fit, first, dividing.learners(fit, 1)[0]),
    }


def scheduled() -> list[bool]:
    """Whether steps move the weights, when the steps of all workers are so many."""
    import keras

    rate = keras.optimizers.schedules.PiecewiseConstantDecay([49], [0.05, 0.0])
    fit = fit_of(lambda: table(optimizer=keras.optimizers.SGD(rate)), (X, CLASSES), epochs=1)
    learner, (block, rows) = dividing.learners(fit, 1)[0], dividing.batches(fit, 0)[0]
    before = numpy.zeros(learner.weights_size, numpy.float32)
    after = numpy.zeros(learner.weights_size + learner.sums_size, numpy.float32)
    learner.write_weights(before)
    found = []
    for updates in (0, 49, 50):
        learner.count(updates)
        learner.advance(block, rows, before, after)
        found.append(not numpy.array_equal(before, after[: len(before)]))
    return found


def refused() -> dict[str, str]:
    """What a learner says of models that it cannot take."""
    import keras

    class Own(keras.Sequential):
        def train_step(self, *arguments: Any) -> Any:
            return super().train_step(*arguments)

    class Largest(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="largest")
            self.value = self.add_variable((), "zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.value.assign(keras.ops.maximum(self.value, keras.ops.max(y_pred)))

        def result(self) -> Any:
            return keras.ops.convert_to_tensor(self.value)

    def own() -> Any:
        model = Own([keras.Input((6,)), dense(3, "softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=[Largest()])
        return model

    def weighted() -> Any:
        loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
        return table(loss=loss, run_eagerly=True)

    def across() -> Any:
        return table(loss="categorical_crossentropy", metrics=[keras.metrics.CosineSimilarity(axis=0)])

    def masked() -> Any:
        layers = (keras.Input((5,), dtype="int32"), keras.layers.Embedding(12, 4, mask_zero=True))
        return compiled(*layers, dense(3, "softmax"))

    def root(true: Any, outputs: Any) -> Any:
        return keras.ops.sqrt(keras.ops.mean(keras.ops.square(true - outputs)))

    ignoring = keras.losses.SparseCategoricalCrossentropy(ignore_class=2)
    callbacks = [keras.callbacks.TerminateOnNaN(), tenfold.EarlyStopping("loss")]
    calls: dict[str, Any] = {
        "own": fit_of(own, (X, CLASSES)),
        "weighted": fit_of(weighted, (X, CLASSES)),
        "across": fit_of(across, (X, ONE_HOT)),
        "callbacks": fit_of(norm, (X, CLASSES), callbacks=callbacks),
        "masked": fit_of(masked, (WORDS, WORDS % 3)),
        "ignoring": fit_of(lambda: table(loss=ignoring), (X, CLASSES)),
        "root": fit_of(lambda: table(loss=root), (X, ONE_HOT)),
        "dice": fit_of(lambda: table(loss="dice"), (X, ONE_HOT)),
        "circle": fit_of(lambda: table(loss="circle"), (X, CLASSES)),
        "own mean": fit_of(lambda: table(loss=own_mean), (X, ONE_HOT)),
        "assigning": fit_of(lambda: table(keras.layers.SpectralNormalization(dense(4))), (X, CLASSES)),
    }
    found = {}
    for name, fit in calls.items():
        try:
            block, rows = dividing.batches(fit, 0)[0]
            one = dividing.alone(fit)
            found[name] = "taken alone"
            one.check_shares()
            dividing.step([one], block, rows, 2)
            found[name] = "taken in shares"
        except tenfold.errors.BadCall as error:
            found[name] = f"{found.get(name, '')} {error}"
    return found


QUESTIONS: dict[str, Callable[[], Any]] = {
    "batch norm": batch_norm,
    "constants": constants,
    "random numbers": random_numbers,
    "scheduled": scheduled,
    "refused": refused,
}


def main(path: Path) -> None:
    found: dict[str, Any] = {}
    for name in (*parity_names(os.environ["KERAS_BACKEND"]), *QUESTIONS):
        try:
            found[name] = parity(name) if name in PARITY else QUESTIONS[name]()
        except Exception:
            found[name] = {"error": traceback.format_exc()}
    path.write_text(json.dumps(found))
