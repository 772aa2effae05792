"""Models of every kind, with what their own framework gives for some rows. Imported by scripts, never by the tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

ROWS = 150  # no multiple of any size of batch that is tried


@dataclass
class Kind:
    """A model to be predicted with."""

    value: Any
    rows: Any
    expected: Any
    fixed: bool
    output: str | None = None
    close: float = 1e-6


def numbers(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=(ROWS, *shape)).astype("float32")


# -- functions and scikit-learn ----------------------------------------------------------------------------------------


def function() -> Kind:
    x, shift = numbers(5), numpy.arange(5.0)
    return Kind(lambda rows: numpy.tanh(rows + shift), x, numpy.tanh(x + shift), fixed=False)


def function_of_samples() -> Kind:
    """Texts of different lengths; the longest come last."""
    texts = ["word" * (1 + n // 40) for n in range(ROWS)]
    return Kind(lambda rows: [text.upper() for text in rows], texts, numpy.array([t.upper() for t in texts]), False)


def function_of_several() -> Kind:
    rows = {"a": numbers(3), "b": (numbers(2, seed=1), numbers(seed=2))}
    expected = rows["b"][0] + rows["b"][1][:, None]

    def both(given: Any) -> dict[str, Any]:
        return {"sum": given["b"][0] + given["b"][1][:, None], "first": given["a"][:, 0]}

    return Kind(both, rows, expected, fixed=False, output="sum")


def _classifier() -> tuple[Any, numpy.ndarray]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = numbers(4)
    names = numpy.array(["no", "perhaps", "yes"])
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, names[numpy.arange(ROWS) % 3]), x


def estimator() -> Kind:
    fitted, x = _classifier()
    return Kind(fitted, x, fitted.predict(x), fixed=False)


def estimator_probabilities() -> Kind:
    fitted, x = _classifier()
    return Kind(fitted, x, fitted.predict_proba(x), fixed=False, output="predict_proba")


def estimator_decisions() -> Kind:
    fitted, x = _classifier()
    return Kind(fitted, x, fitted.decision_function(x), fixed=False, output="decision_function")


def estimator_transform() -> Kind:
    from sklearn.preprocessing import OneHotEncoder

    x = numbers(2).round()
    fitted = OneHotEncoder(handle_unknown="ignore").fit(x)
    return Kind(fitted, x, fitted.transform(x).toarray(), fixed=False, output="transform")


def estimator_of_a_table() -> Kind:
    import pandas
    from sklearn.tree import DecisionTreeRegressor

    table = pandas.DataFrame(numbers(3), columns=["a", "b", "c"])
    fitted = DecisionTreeRegressor().fit(table, table["a"] * 2)
    rows = {name: table[name].to_numpy() for name in ("c", "a", "b")}
    return Kind(fitted, rows, fitted.predict(table), fixed=False)


# -- PyTorch and JAX ---------------------------------------------------------------------------------------------------


def module() -> Kind:
    import torch

    torch.manual_seed(0)
    made = torch.nn.Sequential(
        torch.nn.Linear(6, 200), torch.nn.BatchNorm1d(200), torch.nn.Dropout(0.5), torch.nn.Linear(200, 2)
    )
    made(torch.randn(50, 6))  # moves the averages of the normalisation, which only inference uses
    x = numbers(6)
    with torch.no_grad():
        expected = made.eval()(torch.from_numpy(x)).numpy()
    return Kind(made.train(), x.astype("float64"), expected, fixed=False)


def module_of_several() -> Kind:
    import torch

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Embedding(10, 4)

        def forward(self, a: Any, b: Any) -> Any:
            return self.first(a) + self.second(b), {"norm": a.norm(dim=1), "none": None}

    torch.manual_seed(0)
    made, rows = Two(), (numbers(3), numpy.arange(ROWS) % 10)
    with torch.no_grad():
        total, rest = made(*map(torch.from_numpy, rows))
    return Kind(made, rows, (total.numpy(), {"norm": rest["norm"].numpy()}), fixed=False)


def module_with_names() -> Kind:
    import torch

    class Named(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"double": x * 2, "half": x / 2}

    x = numbers(3)
    return Kind(Named(), x, x / 2, fixed=False, output="half")


def module_that_tenfold_has_trained() -> Kind:
    import torch

    from tenfold.fuse.result import FitResult

    def build(width: int = 3) -> Any:
        made = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh())
        return made, torch.nn.MSELoss(), torch.optim.SGD(made.parameters(), 0.1)

    made, x = build(5)[0], numbers(4)
    weights = {name: tensor.numpy() for name, tensor in made.state_dict().items()}
    with torch.no_grad():
        expected = made(torch.from_numpy(x)).numpy()
    return Kind(FitResult({"width": 5, "seed": 1}, {"loss": [0.0]}, weights, "", build=build), x, expected, fixed=False)


def jitted() -> Kind:
    import jax

    x, weights = numbers(4), numpy.ones((4, 2), "float32") / 3
    return Kind(jax.jit(lambda rows: jax.numpy.tanh(rows @ weights)), x, numpy.tanh(x @ weights), fixed=True)


def jitted_with_weights() -> Kind:
    import jax

    @jax.jit
    def apply(weights: Any, rows: Any) -> Any:
        return {"out": rows["x"] @ weights, "x": rows["x"]}

    rows, weights = {"x": numbers(4)}, jax.numpy.ones((4, 2))
    expected = rows["x"].sum(axis=1, keepdims=True) @ numpy.ones((1, 2), "float32")
    return Kind(functools.partial(apply, weights), rows, expected, fixed=True, output="out")


# -- Keras, in whatever backend this process has -----------------------------------------------------------------------


def _keras(made: Any, rows: Any, given: Any = None, output: str | None = None, pick: Any = None) -> Kind:
    expected = made.predict(rows if given is None else given, verbose=0)
    expected = tuple(expected) if isinstance(expected, list) else expected
    fixed = os.environ["KERAS_BACKEND"] != "torch"
    return Kind(made, rows, expected if pick is None else expected[pick], fixed, output, 2e-6)


def keras_dense() -> Kind:
    """Trained, with what only inference uses, on rows in another precision."""
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    made = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3)]
    )
    made.compile("adam", "mse")
    made.fit(numbers(6), numbers(3), epochs=2, verbose=0)
    return _keras(made, numbers(6).astype("float64"))


def keras_lists() -> Kind:
    import keras

    a, b = keras.Input((4,), name="a"), keras.Input((2,), name="b", dtype="int32")
    joined = keras.layers.Concatenate()([a, keras.ops.cast(b, "float32")])
    made = keras.Model([a, b], [keras.layers.Dense(3, name="x")(joined), keras.layers.Dense(1, name="y")(joined)])
    rows = (numbers(4), numpy.arange(2 * ROWS).reshape(ROWS, 2) % 7)
    return _keras(made, rows, list(rows))


def keras_one_of_a_list() -> Kind:
    kind = keras_lists()
    names = kind.value.output_names
    return Kind(kind.value, kind.rows, kind.expected[1], kind.fixed, names[1], kind.close)


def keras_dicts() -> Kind:
    import keras

    inputs = {"a": keras.Input((4,), name="a"), "b": keras.Input((4,), name="b")}
    total = keras.layers.Add()(list(inputs.values()))
    made = keras.Model(inputs, {"sum": keras.layers.Dense(2)(total), "both": total})
    return _keras(made, {"a": numbers(4), "b": numbers(4, seed=1)}, output="sum", pick="sum")


def keras_own_classes() -> Kind:
    """A subclass with a step of its own, a layer and a function that Keras does not know."""
    import keras

    def bent(x: Any) -> Any:
        return keras.ops.sin(x)

    class Shift(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.by = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return x + self.by

    class Steps(keras.Model):
        def predict_step(self, *given: Any) -> Any:
            found = super().predict_step(*given)
            return (found[0] * 3, found[1]) if isinstance(found, tuple) else found * 3

    x = keras.Input((4,))
    made = Steps(x, keras.layers.Dense(2, activation=bent)(Shift()(x)))
    return _keras(made, numbers(4))


def keras_shared_layer() -> Kind:
    import keras

    x = keras.Input((4, 4, 1))
    layer = keras.layers.Conv2D(2, 3, padding="same", kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    pooled = keras.layers.GlobalAveragePooling2D()(layer(x))
    again = keras.layers.GlobalMaxPooling2D()(layer(keras.layers.Rescaling(0.5)(x)))
    made = keras.Model(x, keras.layers.Concatenate()([pooled, again]))
    return _keras(made, (numbers(4, 4, 1) * 40).astype("uint8"))


def keras_gives_its_input() -> Kind:
    import keras

    x = keras.Input((16,))
    return _keras(keras.Model(x, {"x": x, "more": x + 1}), numbers(16))


def keras_that_tenfold_has_trained() -> Kind:
    import keras

    from tenfold.fuse.result import FitResult

    def build(width: int = 3) -> Any:
        made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(width, "tanh")])
        made.compile("sgd", "mse")
        return made

    kind = _keras(build(5), numbers(6))
    weights = kind.value.get_weights()
    kind.value = FitResult({"width": 5, "seed": 1}, {"loss": [0.0]}, weights, "", build=build)
    return kind


def keras_file() -> Kind:
    kind = keras_dense()
    path = os.path.abspath("model.keras")
    kind.value.save(path)
    return Kind(path, kind.rows, kind.expected, kind.fixed, None, kind.close)


Make = Callable[[], Kind]
KINDS: dict[str, tuple[Make, ...]] = {
    "plain": (
        function,
        function_of_samples,
        function_of_several,
        estimator,
        estimator_probabilities,
        estimator_decisions,
        estimator_transform,
        estimator_of_a_table,
        module,
        module_of_several,
        module_with_names,
        module_that_tenfold_has_trained,
        jitted,
        jitted_with_weights,
    ),
    "keras": (
        keras_dense,
        keras_lists,
        keras_one_of_a_list,
        keras_dicts,
        keras_own_classes,
        keras_shared_layer,
        keras_gives_its_input,
        keras_that_tenfold_has_trained,
        keras_file,
    ),
}
