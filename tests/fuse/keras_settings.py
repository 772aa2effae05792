"""Cases of optimizers, schedules, losses, metrics, weights, rows and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from keras_case import (
    CROSSENTROPY,
    ROWS,
    amounts,
    case,
    columns,
    dense,
    few_amounts,
    items,
    keras,
    one_hot,
    sequential,
    softmax,
    table,
    weighted,
    whole,
    yes_or_no,
)


def regression(optimizer: Any, loss: Any = "mse", metrics: Sequence[Any] = ("mae",)) -> Any:
    return sequential(dense(), dense(1, None), optimizer=optimizer, loss=loss, metrics=metrics)


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


@case("optimizers: SGD, clipvalue, gradients of two steps", few_amounts, options=dict)
def accumulated(lr: float) -> Any:
    return regression(keras.optimizers.SGD(lr, clipvalue=0.05, gradient_accumulation_steps=2))


@case(
    "schedules: ExponentialDecay of SGD; mse; MeanAbsoluteError",
    few_amounts,
    options=dict,
    who=items(steps=(3, 5, 7), factor=(0.5, 0.9, 0.7)),
)
def exponential(lr: float, steps: int, factor: float) -> Any:
    schedule = keras.optimizers.schedules.ExponentialDecay(lr, steps, factor)
    return regression(keras.optimizers.SGD(schedule), "mse", [keras.metrics.MeanAbsoluteError()])


@case("schedules: CosineDecay of Adam, clipnorm", few_amounts, options=dict, who=items(steps=(4, 9, 12)))
def cosine(lr: float, steps: int) -> Any:
    schedule = keras.optimizers.schedules.CosineDecay(lr, steps, alpha=0.1)
    return regression(keras.optimizers.Adam(schedule, clipnorm=0.1))


@case("schedules: PolynomialDecay", few_amounts, options=dict, who=items(steps=(4, 7, 9), factor=(0.5, 1.0, 2.0)))
def polynomial(lr: float, steps: int, factor: float) -> Any:
    schedule = keras.optimizers.schedules.PolynomialDecay(lr, steps, lr / 20, power=factor)
    return regression(keras.optimizers.SGD(schedule))


@case("schedules: InverseTimeDecay", few_amounts, options=dict, who=items(steps=(2, 3, 4), factor=(0.5, 1.0, 2.0)))
def inverse(lr: float, steps: int, factor: float) -> Any:
    schedule = keras.optimizers.schedules.InverseTimeDecay(lr, steps, factor, staircase=True)
    return regression(keras.optimizers.SGD(schedule))


@case("schedules: CosineDecayRestarts", few_amounts, options=dict, who=items(steps=(2, 3, 4), factor=(1.0, 1.5, 2.0)))
def restarts(lr: float, steps: int, factor: float) -> Any:
    schedule = keras.optimizers.schedules.CosineDecayRestarts(lr, steps, t_mul=factor, m_mul=0.8, alpha=0.05)
    return regression(keras.optimizers.SGD(schedule))


@case(
    "schedules: PiecewiseConstantDecay of Adam, global_clipnorm",
    few_amounts,
    options=dict,
    who=items(factor=(0.5, 0.2, 0.7)),
)
def piecewise(lr: float, factor: float) -> Any:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([4, 8], [lr, lr * factor, lr / 8])
    return regression(keras.optimizers.Adam(schedule, global_clipnorm=0.1))


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


# -- what no configuration tells --------------------------------------------------------------------------------------


@case("apart from configurations: Normalization, adapted", whole(table), items(scale=(1.0, 3.0, 5.0)))
def adapted(lr: float, scale: float) -> Any:
    layer = keras.layers.Normalization()
    layer.build((None, 6))
    layer.adapt_mean.assign(scale * columns()[:20].mean(axis=0))
    layer.finalize_state()  # the end of `adapt`, which imports TensorFlow
    return sequential(layer, softmax(), lr=lr)


@case("apart from configurations: a frozen weight", whole(table), items(frozen=("gamma", "gamma", "beta")), groups=2)
def frozen(lr: float, frozen: str) -> Any:
    layer = keras.layers.LayerNormalization()
    model = sequential(dense(), layer, softmax(), lr=lr)
    getattr(layer, frozen).trainable = False
    return model


@case("apart from configurations: decay", few_amounts, items(spared=("kernel", 0, 2)), options=dict, groups=3)
def spared(lr: float, spared: str | int) -> Any:
    optimizer = keras.optimizers.AdamW(lr, weight_decay=0.5)
    model = regression(optimizer)
    names = {"var_names": [spared]} if isinstance(spared, str) else {"var_list": [model.weights[spared]]}
    optimizer.exclude_from_weight_decay(**names)
    return model


@case("apart from configurations: an optimizer that has taken steps", few_amounts, items(steps=(0, 5, 9)), options=dict)
def warmed(lr: float, steps: int) -> Any:
    model = regression(keras.optimizers.Adam(lr))
    if steps:
        model.optimizer.build(model.trainable_variables)
        for variable in model.optimizer.variables[2:]:
            variable.assign(variable + steps / 10)
        model.optimizer.iterations.assign(steps)
    return model


HEADS: dict[str, tuple[str, int, str]] = {
    "KLDivergence": ("softmax", 3, "shares"),
    "Poisson": ("softplus", 1, "counts"),
    "LogCosh": ("linear", 1, "amounts"),
    "CosineSimilarity": ("linear", 3, "shares"),
    "Hinge": ("linear", 1, "signs"),
    "SquaredHinge": ("linear", 1, "signs"),
    "CategoricalHinge": ("linear", 3, "shares"),
    "BinaryFocalCrossentropy": ("sigmoid", 1, "yes"),
    "CategoricalFocalCrossentropy": ("softmax", 3, "shares"),
    "MeanAbsolutePercentageError": ("softplus", 1, "counts"),
    "MeanSquaredLogarithmicError": ("softplus", 1, "counts"),
}
"""Loss -> activation and width of an output, and what it is compared with. One model has them all: one compilation."""


def many_targets() -> tuple[Any, ...]:
    x, shares = one_hot()
    yes = yes_or_no()[1]
    counts = numpy.floor(numpy.abs(3 * x[:, :1])) + 1
    found = {"shares": shares, "counts": counts, "amounts": 2 * x[:, :1], "signs": 2 * yes - 1, "yes": yes}
    return x, {name: found[what] for name, (_, _, what) in HEADS.items()}


@case(f"losses: {', '.join(HEADS)}", whole(many_targets))
def many_losses(lr: float) -> Any:
    seen = keras.Input((6,))
    hidden = dense()(seen)
    heads = {name: dense(units, kind, name=name)(hidden) for name, (kind, units, _) in HEADS.items()}
    model = keras.Model(seen, heads)
    model.compile(keras.optimizers.SGD(lr / 10), {name: getattr(keras.losses, name)() for name in HEADS})
    return model


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


@case(
    "stopping: a metric of another name, more is better",
    whole(yes_or_no),
    who=UNEVEN,
    options=stopping(monitor="val_area", patience=1, restore_best_weights=True),
)
def renamed(lr: float) -> Any:
    metrics = [keras.metrics.AUC(num_thresholds=20, name="area")]
    return sequential(dense(1, "sigmoid"), lr=lr, loss="binary_crossentropy", metrics=metrics)


@case("losses: a class that is left out, more rows to score than a batch has")
def ignoring(lr: float) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=1)
    return sequential(dense(), softmax(), lr=lr, loss=loss, metrics=())


@case("precision: mixed_bfloat16", whole(table), atol=2e-2)
def half(lr: float) -> Any:
    policy = "mixed_bfloat16"
    return sequential(dense(dtype=policy), dense(3, "softmax", dtype="float32"), lr=lr)
