"""Keras models whose process has two devices, compared with one. Run in a process of each backend's own."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import dividing
import learner_cases as cases
import numpy

import tenfold
from tenfold.errors import BadCall, TasksFailed
from tenfold.training import opening

ROWS = numpy.arange(65)
"""Four batches of 16, and one of a single row: fewer than devices."""
UNEVEN = numpy.arange(71)
"""The last batch has 7 rows."""


def norm(optimizer: str = "adam") -> Any:
    import keras

    made = keras.optimizers.Adam(0.005) if optimizer == "adam" else keras.optimizers.SGD(0.02)
    return cases.table(keras.layers.BatchNormalization(momentum=0.8), optimizer=made, metrics=["accuracy"])


def dropout() -> Any:
    import keras

    return cases.table(keras.layers.Dropout(0.4), optimizer=keras.optimizers.Adam(0.02))


PARITY: dict[str, tuple[Any, Any, numpy.ndarray]] = {
    "sgd": (cases.sgd, (cases.X, cases.CLASSES, cases.WEIGHT), ROWS),
    "adam": (cases.adam, (cases.X, cases.ONE_HOT), UNEVEN),
    "scaled": (cases.two_outputs, cases.PARITY["two outputs"][1], UNEVEN),
    "norm": (norm, (cases.X, cases.CLASSES, cases.WEIGHT), UNEVEN),
    "dropout": (dropout, (cases.X, cases.CLASSES), UNEVEN),
}


def learner(fit: Any, rows: numpy.ndarray, devices: int) -> Any:
    return opening.learner(fit, dividing._member(fit, 0, {"rows": rows}), None, devices)


def steps(fit: Any, one: Any, rows: numpy.ndarray) -> dict[str, list[float]]:
    """All epochs, in chunks; the history, with scores."""
    history: dict[str, list[float]] = {}
    block = fit.data
    for epoch in range(fit.epochs):
        order = numpy.random.default_rng(epoch).permutation(rows).astype(numpy.int32)
        one.begin()
        one.steps(block, [order[start : start + 16] for start in range(0, len(order), 16)])
        total = numpy.zeros(one.size, numpy.float32)
        one.score(block, rows[:33], total)
        for name, value in [*one.logs().items(), *((f"val_{k}", v) for k, v in one.logs(total).items())]:
            history.setdefault(name, []).append(value)
    return history


def parity(name: str) -> dict[str, Any]:
    """How far two devices are from one, after 50 steps; and whether they are two."""
    build, data, rows = PARITY[name]
    fit = tenfold.Fit(build, data, epochs=10, batch_size=16)
    two = learner(fit, rows, 2)
    one = learner(fit, rows, 1)
    history, expected = steps(fit, two, rows), steps(fit, one, rows)
    apart = dividing.furthest(two.weights(), one.weights())
    two.put(one.state())
    vectors = numpy.zeros((2, one.size), numpy.float32)
    for vector, each in zip(vectors, (one, two), strict=True):  # a worker's share of a batch
        each.gradient(fit.data, rows[:7].astype(numpy.int32), 7 / 16, vector)
    applied = two.apply(vectors[1]), one.apply(vectors[1])
    return {
        "weights": apart,
        "gone on": dividing.furthest(two.weights(), one.weights()),
        "history": dividing.apart(history, expected),
        "shares": float(abs(vectors[0] - vectors[1]).max()),
        "loss": abs(applied[0] - applied[1]),
        "learned": expected["loss"][-1] < expected["loss"][0],
        "divided": divided(two, fit, rows),
    }


def divided(two: Any, fit: Any, rows: numpy.ndarray) -> bool:
    """Whether each device computes a part: copies that are summed up."""
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        return len(two._strategy.experimental_local_results(two._variables.trained[0].value)) == 2
    batch = numpy.asarray(rows[:16], numpy.int32)
    text = two._step_of.lower(two._state, two._blocks(fit.data), batch).compile().as_text()
    return len(two._state[0][0].sharding.device_set) == 2 and "all-reduce" in text


def calls() -> dict[str, Any]:
    """The whole way, by `tenfold.train`."""
    fit = cases.fit_of(norm, (cases.X, cases.CLASSES), epochs=3)
    settings: dict[str, Any] = {"progress": False}
    one = tenfold.train(fit, {"seed": 3}, workers=1, **settings)
    two = tenfold.train(fit, {"seed": 3}, devices=2, **settings)
    os.environ["TENFOLD_GPUS"] = "2"  # pretended ones are cores
    both = tenfold.train(fit, {"seed": 3}, workers=1, gpus=2, **settings)
    del os.environ["TENFOLD_GPUS"]
    found = {"plan": two.plan, "two": apart(two, one), "gpus": apart(both, one), "workers": two.workers}
    try:  # this process has one
        opening.learner(fit, dividing._member(fit, 0, {}), None, 3)
        return found
    except BadCall as error:
        return found | {"refused": str(error)}


def apart(one: Any, other: Any) -> float:
    return max(dividing.furthest(one.weights, other.weights), dividing.apart(one.history, other.history))


def costly(row: float = 0.006, folder: str = "", at: int = 0) -> Any:
    """A layer that takes its time for each row, so that two devices need half of it; raises once in all."""
    import keras
    import tensorflow

    left = [at]

    def wait(rows: Any) -> Any:
        time.sleep(row * int(rows))
        left[0] -= 1
        if left[0] == 0 and not (raised := Path(folder) / "raised").exists():
            raised.touch()
            raise OSError("once")
        return numpy.float32(0)

    class Costly(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            rows = tensorflow.shape(x)[0]
            waited = tensorflow.numpy_function(wait, [rows], tensorflow.float32, stateful=False)  # at once
            return x + tensorflow.stop_gradient(tensorflow.reshape(waited, []))

    return cases.table(Costly())


def chosen(folder: str) -> dict[str, Any]:
    """Two devices are measured, and taken; the run is broken off after that, goes on, and is finished."""
    stopping = tenfold.EarlyStopping("val_loss", patience=8, min_delta=1e6, restore_best=False)
    fit = cases.fit_of(costly, (cases.X, cases.CLASSES), epochs=10**6, callbacks=[stopping])
    params = {"seed": 3, "folder": folder, "at": 60}
    settings: dict[str, Any] = {"run": Path(folder) / "run", "checkpoint": 1, "progress": False}
    with tenfold.use("local", workers=1):
        try:
            tenfold.train(fit, params, **settings)
            return {}
        except TasksFailed as error:
            failed = str(error)
        resumed = tenfold.train(fit, params, **settings)
        again = tenfold.train(fit, params, **settings)
    one = tenfold.train(fit, {"seed": 3, "row": 0.0}, workers=1, progress=False)
    return {
        "failed": failed,
        "plans": [resumed.plan.splitlines()[1:], again.plan.splitlines()[1:]],
        "events": [list(resumed.events), list(again.events)],
        "apart": apart(resumed, one),
    }


def main(folder: str) -> None:
    found: dict[str, Any] = {"parity": {name: parity(name) for name in PARITY}, "calls": calls()}
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        found["chosen"] = chosen(folder)
    print(json.dumps(found))
