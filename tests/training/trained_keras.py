"""A small Keras model, trained by one, two and four workers: run in a process for each backend."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy

import tenfold
import waiting

NOISE = numpy.random.default_rng(0)
X = NOISE.normal(size=(107, 6)).astype("float32")  # the last batch of 20 has 7 rows
Y = (X[:, :3].sum(1) > 0).astype("int64")


def build(folder: str = "") -> Any:
    """With a folder, one of the first workers is killed when there is a checkpoint in it."""
    import keras

    if folder and tenfold.here().index == 1 and tenfold.here().attempt == 1:
        threading.Thread(target=die, args=(Path(folder),), daemon=True).start()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), loss, metrics=["accuracy"])
    return model


def die(folder: Path) -> None:
    waiting.until((folder / "train.checkpoint").exists, 120)
    os.kill(os.getpid(), signal.SIGKILL)


def apart(one: Any, other: Any) -> float:
    """The largest difference of any weight, or of any number in the histories."""
    assert one.history.keys() == other.history.keys()
    pairs = [*zip(one.weights, other.weights, strict=True)]
    pairs += [(one.history[name], other.history[name]) for name in one.history]
    return max(float(numpy.abs(numpy.subtract(a, b)).max()) for a, b in pairs)


def main(folder: str) -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=25, batch_size=20, validation=0.2)
    one = tenfold.train(fit, {"seed": 3}, workers=1, progress=False)
    found: dict[str, Any] = {}
    for workers in (2, 4):
        trained = tenfold.train(fit, {"seed": 3}, workers=workers, progress=False)
        found[str(workers)] = [trained.workers, apart(trained, one)]
    run = str(Path(folder) / "run")
    options: dict[str, Any] = {"workers": 2, "run": run, "checkpoint": 2, "progress": False}
    lost = tenfold.train(fit, {"seed": 3, "folder": run}, **options)
    found["killed"] = [lost.events, apart(lost, one)]
    counted = tenfold.train(fit, {"seed": 3}, workers=2, how="asynchronous", progress=False)
    found["updates"] = counted.updates
    print(json.dumps(found))
