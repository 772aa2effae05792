"""What Keras models are made of, one feature a case: a model, its data, how it is trained, and who is in the group.

The tests read the names only; the models are built by `keras_parity.py`, in processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

ROWS = 80
"""60 to train and 20 to validate: neither is a whole number of batches of 16."""
BATCH = 16
EPOCHS = 3
CROSSENTROPY = "sparse_categorical_crossentropy"
RATES = (3e-3, 1e-2, 2e-2)

Params = dict[str, Any]


class _Keras:
    """Keras, imported when a model is built: pytest's own process does without."""

    def __getattr__(self, name: str) -> Any:
        import keras

        return getattr(keras, name)


keras: Any = _Keras()


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison."""

    build: Callable[..., Any]
    """Makes a model from parameters."""
    items: Sequence[Params]
    """The models of the group."""
    data: Callable[[], tuple[Any, ...]]
    """(x, y) or (x, y, sample_weight)."""
    options: Callable[[], dict[str, Any]]
    """For `Fit`, beside epochs and batch size."""
    groups: int = 1
    """How many programs the models are."""
    at_a_time: int | None = None
    """Models in a chunk; None for as many as there are."""
    every: bool = False
    """Whether each model is compared; otherwise the first and the last, because alone each one is compiled again."""
    hand: Callable[..., Any] | None = None
    """Builds the same model for training by hand, where `build` leaves something to `Fit`."""
    atol: float = 1e-5
    """Absolute tolerance of weights and histories."""


CASES: dict[str, Case] = {}


def items(**lists: Sequence[Any]) -> list[Params]:
    """Three models with different seeds and rates; `lists` have a value for each."""
    own = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)] or [{}] * len(RATES)
    return [{"seed": 11 + n, "lr": rate, **more} for n, (rate, more) in enumerate(zip(RATES, own, strict=True))]


def case(
    name: str,
    data: Callable[[], tuple[Any, ...]] | None = None,
    who: Sequence[Params] | None = None,
    options: Callable[[], dict[str, Any]] | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a case for the function that builds its model; a function may have several."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in CASES
        chosen = options or (lambda: {"validation": 0.25})
        settings.setdefault("every", name.startswith(("how", "rows", "stopping")))
        CASES[name] = Case(build, who or items(), data or table, chosen, **settings)
        return build

    return add


# -- data -------------------------------------------------------------------------------------------------------------


def draws() -> numpy.random.Generator:
    return numpy.random.default_rng(5)


def columns(rows: int = ROWS) -> numpy.ndarray:
    return draws().normal(size=(rows, 6)).astype("float32")


def classes(x: numpy.ndarray) -> numpy.ndarray:
    """Three classes that can be learned, with some noise."""
    flat = x.reshape(len(x), -1)
    noise = numpy.random.default_rng(6).normal(size=len(x), scale=0.3)
    return numpy.digitize(flat[:, 0] + flat[:, 1] + noise, (-0.7, 0.7))


def table() -> tuple[Any, ...]:
    """Numbers and a class."""
    return columns(), classes(columns())


def one_hot() -> tuple[Any, ...]:
    """Numbers and a class, as three columns."""
    return columns(), numpy.eye(3, dtype="float32")[classes(columns())]


def yes_or_no() -> tuple[Any, ...]:
    return columns(), (classes(columns()) > 0).astype("float32")[:, None]


def amounts() -> tuple[Any, ...]:
    """Numbers and a number, in float64 as users often have them."""
    x = columns()
    return x.astype("float64"), (x[:, 0] - 0.5 * x[:, 1] * x[:, 2] + 0.1 * draws().normal(size=ROWS))[:, None]


def few_amounts() -> tuple[Any, ...]:
    """Whole batches, for training alone."""
    return tuple(array[:48] for array in amounts())


def weighted() -> tuple[Any, ...]:
    return *table(), draws().uniform(0.2, 3.0, ROWS)


def images() -> tuple[Any, ...]:
    x = draws().normal(size=(ROWS, 6, 6, 1)).astype("float32")
    return x, classes(x)


def series() -> tuple[Any, ...]:
    x = draws().normal(size=(ROWS, 5, 3)).astype("float32")
    return x, classes(x)


def words() -> tuple[Any, ...]:
    """Sentences of whole numbers; 0 fills up the short ones."""
    x = draws().integers(1, 12, size=(ROWS, 5))
    x[numpy.arange(5) >= draws().integers(2, 6, size=(ROWS, 1))] = 0
    return x, (x[:, 0] > 6).astype(int)


def tags() -> tuple[Any, ...]:
    """A class for every word."""
    x, _ = words()
    return x, x % 3


def two_inputs() -> tuple[Any, ...]:
    x, y = table()
    return {"left": x[:, :4], "right": x[:, 4:].astype("float64")}, y


def two_outputs() -> tuple[Any, ...]:
    x, y = table()
    return x, {"kind": y, "amount": x[:, :1] * 2}


def whole(data: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """The same in whole batches, 48 rows and 16: for what has nothing to do with their sizes. Half the compilations."""
    return lambda: tuple(
        {name: array[:64] for name, array in part.items()} if isinstance(part, dict) else part[:64] for part in data()
    )


# -- models -----------------------------------------------------------------------------------------------------------


def sequential(
    *layers: Any,
    lr: Any = 0.01,
    shape: tuple[int, ...] | None = (6,),
    optimizer: Any = None,
    loss: Any = CROSSENTROPY,
    metrics: Sequence[Any] = (),
) -> Any:
    """A compiled stack of layers; three classes come out unless the layers say otherwise."""
    model = keras.Sequential([*([] if shape is None else [keras.Input(shape)]), *layers])
    model.compile(optimizer or keras.optimizers.Adam(lr), loss, metrics=list(metrics))
    return model


def dense(units: int = 5, activation: Any = "tanh", **settings: Any) -> Any:
    return keras.layers.Dense(units, activation=activation, **settings)


def softmax() -> Any:
    return dense(3, "softmax")


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


@case("layers: GRU", whole(series))
def gru(lr: float) -> Any:
    return sequential(keras.layers.GRU(4), softmax(), shape=(5, 3), lr=lr)


@case("layers: LSTM", whole(series))
def lstm(lr: float) -> Any:
    return sequential(keras.layers.LSTM(3), softmax(), shape=(5, 3), lr=lr)


@case("layers: SimpleRNN", whole(series))
def simple_rnn(lr: float) -> Any:
    return sequential(keras.layers.SimpleRNN(4), softmax(), shape=(5, 3), lr=lr)


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


@case("layers: LayerNormalization", whole(table))
def layer_norm(lr: float) -> Any:
    return sequential(dense(), keras.layers.LayerNormalization(), softmax(), lr=lr)


@case("numbers: rate of Dropout", whole(table), who=items(rate=(0.1, 0.3, 0.5)))
def dropout(lr: float, rate: float = 0.3) -> Any:
    return sequential(dense(), keras.layers.Dropout(rate), softmax(), lr=lr)


@case("layers: GaussianNoise, GaussianDropout", whole(table))
def noise(lr: float) -> Any:
    return sequential(keras.layers.GaussianNoise(0.2), dense(), keras.layers.GaussianDropout(0.2), softmax(), lr=lr)


@case("numbers: recurrent dropout", whole(series), items(rate=(0.2, 0.2, 0.4)))
def recurrent_dropout(lr: float, rate: float) -> Any:
    own = keras.layers.SimpleRNN(4, dropout=0.1, recurrent_dropout=rate)
    return sequential(own, softmax(), shape=(5, 3), lr=lr)


@case("numbers: strength of an l2 regularizer", whole(table), who=items(strength=(0.1, 0.01, 0.003)))
def regularized(lr: float, strength: float = 0.02) -> Any:
    return sequential(
        dense(kernel_regularizer=keras.regularizers.L2(strength), bias_regularizer="l1"), softmax(), lr=lr
    )


@case("layers: activity regularizer")
def activity(lr: float) -> Any:
    return sequential(dense(activity_regularizer=keras.regularizers.L2(0.02)), softmax(), lr=lr)


@case("layers: frozen", whole(table))
def frozen(lr: float) -> Any:
    norm = keras.layers.BatchNormalization(trainable=False)
    return sequential(dense(trainable=False), norm, dense(), softmax(), lr=lr)


@case("layers: a model in a model", whole(table))
def nested(lr: float) -> Any:
    inner = keras.Sequential([keras.Input((6,)), dense(), keras.layers.Dropout(0.2)])
    return sequential(inner, softmax(), lr=lr)


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


@case("code: a layer in Python", whole(table), who=items(power=(1.0, 1.5, 2.0)))
def own_layer(lr: float, power: float = 1.5) -> Any:
    class Powers(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

        def call(self, x: Any) -> Any:
            return keras.ops.sign(x) * keras.ops.abs(x * self.scale) ** power

    return sequential(dense(), Powers(), softmax(), lr=lr)


@case("code: a layer with random NumPy constants", whole(table))
def constants(lr: float) -> Any:
    return sequential(_projection(7), softmax(), lr=lr)


@case("code: a layer with thousands of random NumPy constants", whole(table))
def many_constants(lr: float) -> Any:
    return sequential(_projection(300), softmax(), lr=lr)


def _projection(units: int) -> Any:
    class Projection(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.matrix = numpy.random.normal(size=(shape[-1], units)).astype("float32")
            self.places = numpy.random.permutation(units)
            self.factor = numpy.random.uniform(0.5, 1.0)

        def call(self, x: Any) -> Any:
            return keras.ops.take(self.factor * (x @ self.matrix), self.places, axis=-1)

    return Projection()


@case("code: Lambda", whole(table))
def lambdas(lr: float) -> Any:
    return sequential(keras.layers.Lambda(lambda x: keras.ops.concatenate([x, x * x], -1)), softmax(), lr=lr)


@case("code: an activation named as one of Keras's", whole(table), who=items(slope=(0.5, 1.0, 2.0)))
def own_activation(lr: float, slope: float) -> Any:
    def silu(x: Any) -> Any:
        return x * keras.ops.sigmoid(slope * x)

    return sequential(dense(activation=silu), softmax(), lr=lr)


@case("code: an anonymous activation", whole(table), who=items(slope=(0.5, 1.0, 2.0)))
def anonymous_activation(lr: float, slope: float) -> Any:
    return sequential(dense(activation=lambda x: keras.ops.tanh(slope * x)), softmax(), lr=lr)


@case("code: a loss in Python", whole(amounts), items(edge=(0.3, 0.5, 1.0)))
def own_loss(lr: float, edge: float) -> Any:
    def pinball(y: Any, found: Any) -> Any:
        return keras.ops.mean(keras.ops.maximum(edge * (y - found), (edge - 1) * (y - found)), -1)

    return sequential(dense(), dense(1, None), lr=lr, loss=pinball, metrics=["mae"])


@case("code: a metric in Python", whole(amounts), items(factor=(1.0, 2.0, 3.0)))
def own_metric(lr: float, factor: float) -> Any:
    class Scaled(keras.metrics.Mean):  # type: ignore[misc]
        def update_state(self, y: Any, found: Any, sample_weight: Any = None) -> Any:
            return super().update_state(keras.ops.abs(y - found), sample_weight)

        def result(self) -> Any:
            return factor * super().result()

    return sequential(dense(1, None), lr=lr, loss="mse", metrics=[Scaled(name="scaled")])


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


# -- optimizers and losses --------------------------------------------------------------------------------------------


def regression(optimizer: Any, loss: Any = "mse", metrics: Sequence[Any] = ("mae",)) -> Any:
    return sequential(dense(), dense(1, None), optimizer=optimizer, loss=loss, metrics=metrics)


@case("optimizers: SGD; mse; MeanAbsoluteError", few_amounts, options=dict)
def sgd(lr: float) -> Any:
    return regression(keras.optimizers.SGD(lr), "mse", [keras.metrics.MeanAbsoluteError()])


@case("numbers: momentum of SGD; mae", few_amounts, options=dict, who=items(momentum=(0.5, 0.8, 0.9)))
def momentum(lr: float, momentum: float = 0.9) -> Any:
    return regression(keras.optimizers.SGD(lr, momentum), "mae", ["mse"])


@case("optimizers: SGD, Nesterov; huber", few_amounts, options=dict)
def nesterov(lr: float) -> Any:
    return regression(keras.optimizers.SGD(lr, 0.8, nesterov=True), keras.losses.Huber(0.7))


@case(
    "numbers: beta_1, beta_2 of Adam",
    few_amounts,
    options=dict,
    who=items(beta_1=(0.8, 0.9, 0.95), beta_2=(0.99, 0.999, 0.9)),
)
def betas(lr: float, beta_1: float, beta_2: float) -> Any:
    return regression(keras.optimizers.Adam(lr, beta_1, beta_2))


@case("numbers: weight decay of AdamW", few_amounts, options=dict, who=items(decay=(0.1, 0.01, 0.02)))
def adamw(lr: float, decay: float = 0.05) -> Any:
    return regression(keras.optimizers.AdamW(lr, weight_decay=decay))


@case("optimizers: RMSprop", few_amounts, options=dict)
def rmsprop(lr: float) -> Any:
    return regression(keras.optimizers.RMSprop(lr))


@case("optimizers: Nadam", few_amounts, options=dict)
def nadam(lr: float) -> Any:
    return regression(keras.optimizers.Nadam(lr))


@case("optimizers: Adam, clipnorm", few_amounts, options=dict)
def clipnorm(lr: float) -> Any:
    return regression(keras.optimizers.Adam(lr, clipnorm=0.1))


@case("optimizers: Adam, global_clipnorm", few_amounts, options=dict)
def global_clipnorm(lr: float) -> Any:
    return regression(keras.optimizers.Adam(lr, global_clipnorm=0.1))


@case("optimizers: SGD, clipvalue, gradients of two steps", few_amounts, options=dict)
def accumulated(lr: float) -> Any:
    return regression(keras.optimizers.SGD(lr, clipvalue=0.05, gradient_accumulation_steps=2))


@case("schedules: ExponentialDecay", few_amounts, options=dict, who=items(steps=(3, 5, 7), factor=(0.5, 0.9, 0.7)))
def exponential(lr: float, steps: int, factor: float) -> Any:
    return regression(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(lr, steps, factor)))


@case("schedules: CosineDecay", few_amounts, options=dict, who=items(steps=(4, 9, 12)))
def cosine(lr: float, steps: int) -> Any:
    return regression(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(lr, steps, alpha=0.1)))


@case("schedules: PiecewiseConstantDecay", few_amounts, options=dict, who=items(factor=(0.5, 0.2, 0.7)))
def piecewise(lr: float, factor: float) -> Any:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([4, 8], [lr, lr * factor, lr / 8])
    return regression(keras.optimizers.Adam(schedule))


@case(
    "numbers: label smoothing of categorical crossentropy; TopK, F1Score",
    whole(one_hot),
    items(smoothing=(0.05, 0.1, 0.2)),
)
def categorical(lr: float, smoothing: float = 0.1) -> Any:
    metrics = [keras.metrics.TopKCategoricalAccuracy(2), keras.metrics.F1Score("macro")]
    return sequential(
        softmax(), lr=lr, loss=keras.losses.CategoricalCrossentropy(label_smoothing=smoothing), metrics=metrics
    )


@case("losses: binary crossentropy; AUC, Precision", whole(yes_or_no))
def binary(lr: float) -> Any:
    metrics = [keras.metrics.AUC(num_thresholds=20, name="area"), keras.metrics.Precision(name="precise")]
    return sequential(dense(), dense(1, "sigmoid"), lr=lr, loss="binary_crossentropy", metrics=metrics)


@case("losses: of a whole batch (Dice)", one_hot)
def dice(lr: float) -> Any:
    return sequential(softmax(), lr=lr, loss=keras.losses.Dice(), metrics=())


@case("losses: summed", amounts)
def summed(lr: float) -> Any:
    return regression(keras.optimizers.SGD(lr / 20), keras.losses.MeanSquaredError(reduction="sum"), ())


@case("metrics: one that ends otherwise in each model", whole(yes_or_no), items(curve=("ROC", "PR", "ROC")), groups=2)
def curves(lr: float, curve: str) -> Any:
    metrics = [keras.metrics.AUC(num_thresholds=20, curve=curve, name="area")]
    return sequential(dense(1, "sigmoid"), lr=lr, loss="binary_crossentropy", metrics=metrics)


def added_metrics(lr: float, metrics: Sequence[str] = ("accuracy", CROSSENTROPY)) -> Any:
    return sequential(softmax(), lr=lr, metrics=metrics)


@case(
    "metrics: given to Fit",
    whole(table),
    options=lambda: {"validation": 0.25, "metrics": [CROSSENTROPY]},
    hand=added_metrics,
)
def fewer_metrics(lr: float) -> Any:
    return added_metrics(lr, ["accuracy"])


# -- weights, rows, stopping ------------------------------------------------------------------------------------------


def weighted_accuracy() -> Any:
    return keras.metrics.SparseCategoricalAccuracy(name="heavy")


@case("weights: of samples", weighted)
@case("weights: of classes", options=lambda: {"validation": 0.25, "class_weight": {0: 0.3, 2: 4.0}})
def weights(lr: float) -> Any:
    model = sequential(softmax(), lr=lr)
    model.compile(keras.optimizers.Adam(lr), model.loss, metrics=["accuracy"], weighted_metrics=[weighted_accuracy()])
    return model


@case(
    "weights: of classes, validation data has none, momentum differs",
    who=items(momentum=(0.5, 0.8, 0.9)),
    options=lambda: {"validation": table(), "class_weight": {0: 0.3, 2: 4.0}},
)
@case(
    "weights: of samples, validation data has none, momentum differs",
    weighted,
    items(momentum=(0.5, 0.8, 0.9)),
    options=lambda: {"validation": table()},
)
@case(
    "weights: validation data has some, training has none, momentum differs",
    who=items(momentum=(0.5, 0.8, 0.9)),
    options=lambda: {"validation": weighted()},
)
def one_sided(lr: float, momentum: float) -> Any:
    return sequential(softmax(), optimizer=keras.optimizers.SGD(lr, momentum))


def folds() -> list[numpy.ndarray]:
    return [numpy.delete(numpy.arange(64), slice(16 * n, 16 * n + 16)) for n in range(3)]


def bootstrap() -> list[numpy.ndarray]:
    return [numpy.random.default_rng(n).integers(0, ROWS, 64) for n in range(3)]


def left_out() -> list[list[int]]:
    return [list(range(16 * n, 16 * n + 16)) for n in range(3)]


@case("rows: folds", who=items(rows=folds(), validation_rows=left_out()), options=dict)
@case("rows: bootstrap, a share of it to validate", who=items(rows=bootstrap()))
@case("rows: bootstrap, validation data", who=items(rows=bootstrap()), options=lambda: {"validation": table()})
@case("rows: of validation only", who=items(validation_rows=left_out()), options=dict)
@case("rows: two lengths", who=items(rows=[range(32), range(30, 62), range(70)]), groups=2)
def own_rows(lr: float) -> Any:
    return sequential(softmax(), lr=lr)


def stopping(**settings: Any) -> Callable[[], dict[str, Any]]:
    """Not shuffled, so that one call of `model.fit` is what to compare with."""

    def options() -> dict[str, Any]:
        callback = keras.callbacks.EarlyStopping(**settings)
        return {"validation": 0.25, "epochs": 6, "shuffle": False, "callbacks": [callback]}

    return options


UNEVEN = [{"seed": seed, "lr": lr} for seed, lr in enumerate((1.0, 0.003, 3.0, 0.1))]
"""Some get worse soon, some never do."""
BROKEN = [{"seed": seed, "lr": lr} for seed, lr in enumerate((0.01, float("nan"), 0.02))]


@case("stopping: the best weights", whole(table), who=UNEVEN, options=stopping(patience=1, restore_best_weights=True))
@case("stopping: the last weights", whole(table), who=UNEVEN, options=stopping(patience=2, min_delta=0.05), at_a_time=2)
@case(
    "stopping: from the third epoch, more is better",
    whole(table),
    who=UNEVEN,
    options=stopping(monitor="val_accuracy", patience=0, start_from_epoch=2, restore_best_weights=True),
)
@case("stopping: a baseline", whole(table), who=UNEVEN, options=stopping(patience=1, baseline=0.9, min_delta=0.1))
@case("stopping: a model of NaN", whole(table), who=BROKEN, options=stopping(patience=2, restore_best_weights=True))
@case(
    "stopping: later than it is trained",
    whole(table),
    options=stopping(patience=1, start_from_epoch=9, restore_best_weights=True),
)
def stopped(lr: float) -> Any:
    return sequential(softmax(), lr=lr, metrics=["accuracy"])


@case("precision: mixed_bfloat16", whole(table), atol=2e-2)
def half(lr: float) -> Any:
    policy = "mixed_bfloat16"
    return sequential(dense(dtype=policy), dense(3, "softmax", dtype="float32"), lr=lr)
