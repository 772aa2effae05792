"""Keras models with `Fit(outputs=True)`: how far what a result has is from what its model predicts.

Started by `test_outputs.py`, in a process with Keras on JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import keras_case
import keras_parity
import numpy

from tenfold.fuse import keras as workshops
from tenfold.fuse.fit import Fit
from tenfold.fuse.outputs import each
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import EarlyStopping

ROWS = 64  # whole batches, so that there is less to compile
NUMBERS = ((0.01, 0.1), (0.02, 0.3), (0.05, 0.2))
OTHERS = [{"seed": n, "lr": lr, "rate": rate} for n, (lr, rate) in enumerate(NUMBERS)]
FOLDS = numpy.array_split(numpy.random.default_rng(3).permutation(ROWS), 4)


def rows_of(number: int, name: str = "validation_rows") -> dict[str, Any]:
    kept = numpy.concatenate([fold for place, fold in enumerate(FOLDS) if place != number])
    return {"rows": kept, name: FOLDS[number]}


def plain(lr: float, rate: float = 0.1) -> Any:
    inner = [keras_case.dense(), keras.layers.BatchNormalization(), keras.layers.Dropout(rate)]
    return keras_case.sequential(*inner, keras_case.softmax(), optimizer=keras.optimizers.SGD(lr))


def many_outputs(lr: float, **_: Any) -> Any:
    x = keras.Input((6,))
    middle = keras.layers.Dense(4, "tanh")(x)
    outputs = {
        "kind": keras.layers.Dense(3, "softmax", name="kind")(middle),
        "amount": keras.layers.Dense(1, name="amount")(middle),
    }
    model = keras.Model(x, outputs)
    model.compile(keras.optimizers.SGD(lr), {"kind": keras_case.CROSSENTROPY, "amount": "mse"})
    return model


def other_data() -> tuple[Any, ...]:
    return keras_case.columns(30) + 1, keras_case.classes(keras_case.columns(30))


EVERY_WAY = ("folds that score nothing", "stopped")
"""Cases that are trained fused, looped and alone; the others are fused only."""
STOPPING = EarlyStopping(monitor="val_loss", patience=0, min_delta=0.2)
CASES: dict[str, tuple[Any, Any, list[Any], dict[str, Any]]] = {
    "a share of the rows": (plain, keras_case.table, OTHERS, {"validation": 0.25}),
    "data of its own": (plain, keras_case.table, OTHERS, {"validation": other_data()}),
    "folds": (plain, keras_case.table, [{**one, **rows_of(n)} for n, one in enumerate(OTHERS)], {}),
    "folds that score nothing": (
        plain,
        keras_case.table,
        [{**one, **rows_of(n, "output_rows")} for n, one in enumerate(OTHERS)],
        {"validation": 0.25},
    ),
    "several outputs": (many_outputs, keras_case.two_outputs, OTHERS, {"validation": 0.25}),
    "stopped": (plain, keras_case.table, OTHERS, {"validation": 0.25, "callbacks": [STOPPING], "epochs": 4}),
}


def expected(fit: Fit, result: FitResult) -> Any:
    """What the rebuilt model predicts, for the rows that a person would expect."""
    params = result.params
    x = fit.data.x
    if fit.validation_columns is not None:
        x = fit.validation_columns.x
    elif "output_rows" in params or "validation_rows" in params:
        x = x[params.get("output_rows", params.get("validation_rows"))]
    else:
        x = x[int(len(x) * 0.75) :]
    model = fit.received(result).model()
    if result.how == "alone":
        return model.predict(x, verbose=0)
    return each(numpy.asarray, model(x, training=False))  # the same, without a compilation for each model


def apart(fit: Fit, result: FitResult) -> float:
    """The largest difference between the two, as a share of what is tolerated; infinite where shapes differ."""
    found: list[float] = []

    def compare(one: numpy.ndarray, other: numpy.ndarray) -> None:
        same = one.shape == other.shape and one.dtype == other.dtype
        found.append(float((abs(one - other) / (1e-6 + 1e-4 * abs(other))).max()) if same else numpy.inf)

    each(compare, result.outputs, expected(fit, result))
    return max(found)


def answer(name: str, folder: Path) -> dict[str, Any]:
    build, data, items, options = CASES[name]
    found: dict[str, Any] = {}
    workshops.AT_A_TIME = 2  # a chunk that is full and one that is not
    for how in ("fused", "looped") if name in EVERY_WAY else ("fused",):
        fit = Fit(build, keras_case.whole(data)(), batch_size=16, outputs=True, how=how, **{"epochs": 2, **options})
        results = keras_parity.train(fit, items, folder / how / name)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        found[how] = [(result.how, apart(fit, result)) for result in results]
        found[f"{how} epochs"] = [(result.epochs, result.best_epoch) for result in results]
    if name in EVERY_WAY:
        alone = fit(items[-1])
        found["alone"] = [(alone.how, apart(fit, alone))]
    return found
