"""Cases of Keras's layers, and of code of the user's own in models."""

from __future__ import annotations

from typing import Any

import numpy
from keras_case import (
    CROSSENTROPY,
    amounts,
    case,
    classes,
    columns,
    dense,
    images,
    items,
    keras,
    sequential,
    series,
    softmax,
    table,
    tags,
    two_inputs,
    two_outputs,
    whole,
    words,
)


@case("layers: Dense")
@case("how: looped", options=lambda: {"validation": 0.25, "how": "looped"})
@case("how: chunks of two, the last one filled up", at_a_time=2)
@case("how: no whole batch", options=lambda: {"validation": 0.25, "batch_size": 64})
@case("validation: none", options=dict)
@case("validation: data", options=lambda: {"validation": (columns(23)[::-1], classes(columns(23)[::-1]))})
@case("rows: not shuffled", options=lambda: {"validation": 0.25, "shuffle": False})
def plain(lr: float) -> Any:
    return sequential(dense(), softmax(), lr=lr, metrics=["accuracy"])


@case("layers: Sequential without Input", whole(table))
def deferred(lr: float) -> Any:
    return sequential(dense(), softmax(), lr=lr, shape=None)


@case("layers: Conv2D, MaxPooling2D", whole(images))
def conv2d(lr: float) -> Any:
    own = keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.MaxPooling2D(2), keras.layers.Flatten()
    return sequential(*own, softmax(), shape=(6, 6, 1), lr=lr)


@case("layers: Conv1D, AveragePooling1D, GlobalMaxPooling1D", whole(series))
def conv1d(lr: float) -> Any:
    own = keras.layers.Conv1D(4, 2), keras.layers.AveragePooling1D(2), keras.layers.GlobalMaxPooling1D()
    return sequential(*own, softmax(), shape=(5, 3), lr=lr)


@case("layers: SimpleRNN, GRU, LSTM", whole(series))
def recurrent(lr: float) -> Any:
    own = keras.layers.SimpleRNN(4, return_sequences=True), keras.layers.GRU(4, return_sequences=True)
    return sequential(*own, keras.layers.LSTM(3), softmax(), shape=(5, 3), lr=lr)


@case("layers: Embedding of whole numbers", whole(words))
def embedding(lr: float) -> Any:
    return sequential(keras.layers.Embedding(12, 3), keras.layers.Flatten(), softmax(), shape=(5,), lr=lr)


@case("layers: a mask that reaches the loss", tags)
def masked(lr: float) -> Any:
    return sequential(keras.layers.Embedding(12, 3, mask_zero=True), softmax(), shape=(5,), lr=lr)


@case("layers: MultiHeadAttention, functional", whole(series))
def attention(lr: float) -> Any:
    entry = keras.Input((5, 3))
    # The bias of keys has no influence: its gradient is rounding, of which Adam makes steps.
    found = keras.layers.MultiHeadAttention(2, 2, use_bias=False)(entry, entry)
    out = softmax()(keras.layers.GlobalAveragePooling1D()(keras.layers.add([entry, found])))
    model = keras.Model(entry, out)
    model.compile(keras.optimizers.Adam(lr), CROSSENTROPY, metrics=["accuracy"])
    return model


@case("layers: BatchNormalization")
def batch_norm(lr: float) -> Any:
    # No bias before it: its gradient would be rounding noise, which Adam makes as large as any other.
    own = dense(5, None, use_bias=False), keras.layers.BatchNormalization(), keras.layers.Activation("relu")
    return sequential(*own, softmax(), lr=lr)


@case("layers: GaussianNoise, LayerNormalization, GaussianDropout", whole(table))
def noise(lr: float) -> Any:
    own = keras.layers.GaussianNoise(0.2), dense(), keras.layers.LayerNormalization(), keras.layers.GaussianDropout(0.2)
    return sequential(*own, softmax(), lr=lr)


@case("numbers: recurrent dropout", whole(series), items(rate=(0.2, 0.2, 0.4)))
def recurrent_dropout(lr: float, rate: float) -> Any:
    own = keras.layers.SimpleRNN(4, dropout=0.1, recurrent_dropout=rate)
    return sequential(own, softmax(), shape=(5, 3), lr=lr)


@case(
    "numbers: strength of an l2 regularizer, rate of Dropout",
    whole(table),
    who=items(strength=(0.1, 0.01, 0.003), rate=(0.1, 0.3, 0.5)),
)
def regularized(lr: float, strength: float, rate: float) -> Any:
    own = dense(kernel_regularizer=keras.regularizers.L2(strength), bias_regularizer="l1"), keras.layers.Dropout(rate)
    return sequential(*own, softmax(), lr=lr)


@case("layers: activity regularizer")
def activity(lr: float) -> Any:
    return sequential(dense(activity_regularizer=keras.regularizers.L2(0.02)), softmax(), lr=lr)


@case("layers: frozen, and a model in a model", whole(table))
def frozen(lr: float) -> Any:
    norm = keras.layers.BatchNormalization(trainable=False)
    inner = keras.Sequential([keras.Input((5,)), dense(), keras.layers.Dropout(0.2)])
    return sequential(dense(trainable=False), norm, inner, softmax(), lr=lr)


@case("layers: two inputs in a dict", whole(two_inputs))
def inputs(lr: float) -> Any:
    left, right = keras.Input((4,), name="left"), keras.Input((2,), name="right")
    out = softmax()(keras.layers.concatenate([dense()(left), dense()(right)]))
    model = keras.Model({"left": left, "right": right}, out)
    model.compile(keras.optimizers.Adam(lr), CROSSENTROPY)
    return model


@case("numbers: loss weights of two outputs", whole(two_outputs), items(share=(0.2, 0.5, 2.0)))
def outputs(lr: float, share: float = 0.3) -> Any:
    entry = keras.Input((6,))
    body = dense()(entry)
    model = keras.Model(entry, {"kind": dense(3, "softmax")(body), "amount": dense(1, None)(body)})
    losses = {"kind": CROSSENTROPY, "amount": "mse"}
    weights = {"kind": 1.0, "amount": share}
    model.compile(keras.optimizers.Adam(lr), losses, loss_weights=weights, metrics={"kind": ["accuracy"]})
    return model


# -- code of the user's own -------------------------------------------------------------------------------------------


@case("code: a layer in Python, Lambda", whole(table), who=items(power=(1.0, 1.5, 2.0)))
def own_layer(lr: float, power: float = 1.5) -> Any:
    class Powers(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

        def call(self, x: Any) -> Any:
            return keras.ops.sign(x) * keras.ops.abs(x * self.scale) ** power

    doubled = keras.layers.Lambda(lambda x: keras.ops.concatenate([x, x * x], -1))
    return sequential(doubled, dense(), Powers(), softmax(), lr=lr)


@case("code: layers with some and with thousands of random NumPy constants", whole(table))
def constants(lr: float) -> Any:
    return sequential(_projection(7), _projection(300), softmax(), lr=lr)


def _projection(units: int) -> Any:
    class Projection(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.matrix = numpy.random.normal(size=(shape[-1], units)).astype("float32")
            self.places = numpy.random.permutation(units)
            self.factor = numpy.random.uniform(0.5, 1.0)

        def call(self, x: Any) -> Any:
            return keras.ops.take(self.factor * (x @ self.matrix), self.places, axis=-1)

    return Projection()


@case(
    "code: activations that are anonymous or named as one of Keras's",
    whole(table),
    who=items(slope=(0.5, 1.0, 2.0), other=(2.0, 1.5, 1.0)),
)
def own_activations(lr: float, slope: float, other: float) -> Any:
    def silu(x: Any) -> Any:
        return x * keras.ops.sigmoid(slope * x)

    own = dense(activation=silu), dense(activation=lambda x: keras.ops.tanh(other * x))
    return sequential(*own, softmax(), lr=lr)


@case("code: a loss and a metric in Python", whole(amounts), items(edge=(0.3, 0.5, 1.0), factor=(1.0, 2.0, 3.0)))
def own_loss(lr: float, edge: float, factor: float) -> Any:
    def pinball(y: Any, found: Any) -> Any:
        return keras.ops.mean(keras.ops.maximum(edge * (y - found), (edge - 1) * (y - found)), -1)

    class Scaled(keras.metrics.Mean):  # type: ignore[misc]
        def update_state(self, y: Any, found: Any, sample_weight: Any = None) -> Any:
            return super().update_state(keras.ops.abs(y - found), sample_weight)

        def result(self) -> Any:
            return factor * super().result()

    return sequential(dense(), dense(1, None), lr=lr, loss=pinball, metrics=["mae", Scaled(name="scaled")])


@case("code: a model with a call of its own", whole(table))
def own_model(lr: float) -> Any:
    class Residual(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head, self.drop = dense(6), softmax(), keras.layers.Dropout(0.2)

        def call(self, x: Any, training: bool = False) -> Any:
            return self.head(x + self.drop(self.body(x), training=training))

    model = Residual()
    model.compile(keras.optimizers.Adam(lr), CROSSENTROPY, metrics=["accuracy"])
    return model
