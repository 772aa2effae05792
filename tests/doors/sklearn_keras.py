"""What is asked of Keras estimators, in a process of their own. Started by `test_sklearn_keras.py`."""

from __future__ import annotations

import functools
import json
import pickle
import random
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy
import sklearn_builds as builds
from sklearn.base import clone

import tenfold
from tenfold.errors import BadCall
from tenfold.sklearn import KerasClassifier, KerasRegressor

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(60, 4))
NAMES = numpy.array(["low", "middle", "high"])[numpy.digitize(X[:, 0] + X[:, 1], (-0.6, 0.6))]
SIDES = numpy.where(X[:, 0] > 0, "right", "left")
AMOUNTS = X[:, 0] - 2 * X[:, 1]

QUESTIONS: dict[str, Callable[[], Any]] = {}


def question(function: Callable[[], Any]) -> Callable[[], Any]:
    QUESTIONS[function.__name__] = function
    return function


def built(outputs: int, activation: Any, loss: Any, *, shape: tuple[int, ...] | None = (4,)) -> Callable[..., Any]:
    def build(lr: float = 0.1) -> Any:
        import keras
        from keras import layers

        first = [] if shape is None else [keras.Input(shape)]
        model = keras.Sequential([*first, layers.Dense(8, "tanh"), layers.Dense(outputs, activation)])
        model.compile(keras.optimizers.Adam(lr), loss() if callable(loss) else loss)
        return model

    return build


def losses() -> dict[str, tuple[Callable[..., Any], numpy.ndarray]]:
    from keras import losses

    return {
        "sparse": (built(3, "softmax", "sparse_categorical_crossentropy"), NAMES),
        "sparse logits": (built(3, None, lambda: losses.SparseCategoricalCrossentropy(from_logits=True)), NAMES),
        "one-hot": (built(3, "softmax", "categorical_crossentropy"), NAMES),
        "one-hot logits": (built(3, None, lambda: losses.CategoricalCrossentropy(from_logits=True)), NAMES),
        "a function": (built(3, "softmax", lambda: losses.categorical_crossentropy), NAMES),
        "sigmoid": (built(1, "sigmoid", "binary_crossentropy"), SIDES),
        "one logit": (built(1, None, lambda: losses.BinaryCrossentropy(from_logits=True)), SIDES),
        "two of softmax": (built(2, "softmax", "sparse_categorical_crossentropy"), SIDES),
        "odds": (built(3, None, lambda: losses.BinaryCrossentropy(from_logits=True)), NAMES),
        "squares": (built(3, None, "mse"), NAMES),
        "no input": (built(3, "softmax", "sparse_categorical_crossentropy", shape=None), NAMES),
    }


@question
def every_loss() -> dict[str, Any]:
    found = {}
    for name, (build, y) in losses().items():
        estimator = KerasClassifier(build, epochs=20, random_state=0).fit(X, y)
        chances = estimator.predict_proba(X)
        agree = bool((estimator.classes_[chances.argmax(axis=1)] == estimator.predict(X)).all())
        sums = float(abs(chances.sum(axis=1) - 1).max())
        found[name] = [list(chances.shape), agree, sums, estimator.score(X, y), list(estimator.classes_)]
    return found


@question
def losses_of_ones_own() -> dict[str, float]:
    """How far probabilities are from those with Keras's own loss, which says that it takes logits."""
    from keras import losses

    def sparse(y: Any, outputs: Any) -> Any:
        return losses.sparse_categorical_crossentropy(y, outputs, from_logits=True)

    class Binary(losses.Loss):  # type: ignore[misc]
        def call(self, y: Any, outputs: Any) -> Any:
            return losses.binary_crossentropy(y, outputs, from_logits=True)

    def chances(outputs: int, loss: Any, y: numpy.ndarray) -> numpy.ndarray:
        build = built(outputs, None, lambda: loss)
        found: numpy.ndarray = KerasClassifier(build, epochs=20, random_state=0).fit(X, y).predict_proba(X)
        return found

    three = chances(3, losses.SparseCategoricalCrossentropy(from_logits=True), NAMES)
    two = chances(1, losses.BinaryCrossentropy(from_logits=True), SIDES)
    part = functools.partial(losses.sparse_categorical_crossentropy, from_logits=True)
    found = {
        "a function": three - chances(3, sparse, NAMES),
        "a part of one": three - chances(3, part, NAMES),
        "a class": two - chances(1, Binary(), SIDES),
    }
    return {name: float(abs(apart).max()) for name, apart in found.items()}


@question
def a_hinge() -> dict[str, Any]:
    estimator = KerasClassifier(built(1, None, "hinge"), epochs=20, random_state=0).fit(X, SIDES)
    try:
        estimator.predict_proba(X)
        said = ""
    except BadCall as error:
        said = str(error)
    return {"score": estimator.score(X, SIDES), "said": said}


@question
def a_class_of_its_own() -> dict[str, Any]:
    import keras

    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.outer(self.inner(x))

    def build() -> Any:
        model = Own()
        model.compile(keras.optimizers.Adam(0.1), "mse")
        return model

    estimator = KerasRegressor(build, epochs=20, random_state=0).fit(X, AMOUNTS)
    return {"score": estimator.score(X, AMOUNTS), "shape": list(estimator.predict(X).shape)}


@question
def refusals() -> list[str]:
    import keras

    def uncompiled() -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])

    def two_outputs() -> Any:
        x = keras.Input((4,))
        model = keras.Model(x, [keras.layers.Dense(3)(x), keras.layers.Dense(1)(x)])
        model.compile("adam", ["sparse_categorical_crossentropy", "mse"])
        return model

    said = []
    for build in (uncompiled, two_outputs, built(1, "sigmoid", "binary_crossentropy"), built(2, "softmax", "mse")):
        try:
            KerasClassifier(build).fit(X, NAMES)
        except BadCall as error:
            said.append(str(error))
    return said


@question
def going_on() -> dict[str, Any]:
    def estimator(epochs: int) -> KerasClassifier:
        return KerasClassifier(builds.keras_classes, epochs=epochs, random_state=0, lr=0.05)

    whole, parts = estimator(3).fit(X, NAMES), estimator(1)
    for _ in range(2):
        parts.partial_fit(X, NAMES, classes=sorted(set(NAMES)))
    there = pickle.loads(pickle.dumps(parts))
    for one in (parts, there):
        one.partial_fit(X, NAMES)
    chances = [one.predict_proba(X) for one in (whole, parts, there)]
    return {
        "losses": [one.history_["loss"] for one in (whole, parts, there)],
        "apart": [float(abs(chances[0] - other).max()) for other in chances[1:]],
    }


@question
def travelling() -> dict[str, Any]:
    estimator = KerasClassifier(builds.keras_classes, epochs=2, random_state=0).fit(X, NAMES)
    chances = estimator.predict_proba(X)
    text = pickle.dumps(estimator)
    found = pickle.loads(text)
    return {
        "keras in it": b"keras.src" in text,
        "apart": float(abs(found.predict_proba(X) - chances).max()),
        "model": type(estimator.model_).__name__,
        "kept": clone(KerasClassifier(builds.keras_classes, fit_kwargs={"epochs": 2})).fit_kwargs,
    }


@question
def stopping() -> list[int]:
    import keras

    rules = (tenfold.EarlyStopping(patience=1, min_delta=0.3), keras.callbacks.EarlyStopping(patience=1, min_delta=0.3))
    settings = {"epochs": 30, "validation": 0.25, "random_state": 0}
    every = [KerasClassifier(builds.keras_classes, callbacks=[rule], **settings) for rule in rules]
    return [len(clone(estimator).fit(X, NAMES).history_["val_loss"]) for estimator in every]


@question
def random_numbers() -> bool:
    def draws() -> tuple[float, float]:
        return numpy.random.rand(), random.random()

    numpy.random.seed(1), random.seed(1)
    expected = draws()
    numpy.random.seed(1), random.seed(1)
    KerasClassifier(builds.keras_classes, random_state=0).fit(X, NAMES).predict(X)
    return draws() == expected


def main(*names: str) -> None:
    """Print a line of JSON with an answer to each question."""
    answers: dict[str, Any] = {}
    for name in names or QUESTIONS:
        try:
            answers[name] = QUESTIONS[name]()
        except Exception:
            answers[name] = {"error": traceback.format_exc()}
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
