"""Models that are divided, and what is compared of them."""

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
from tenfold.errors import BadCall, Diverged
from tenfold.training.sharded_keras import KerasShards

NOISE = numpy.random.default_rng(0)
X = NOISE.normal(size=(75, 12)).astype("float32")  # 60 rows to train on: the last batch of 31 has 29
Y = (X[:, :3].sum(1) > 0).astype("int64")


def in_torch(optimizer: str = "sgd", width: int = 64) -> Any:
    import torch

    first, second, last = torch.nn.Linear(12, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 2)
    module = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)
    made = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9) if optimizer == "sgd" else None
    return module, torch.nn.CrossEntropyLoss(), made or torch.optim.Adam(module.parameters(), 0.01)


def with_norm() -> Any:
    """And with buffers that never change."""
    import torch

    last = torch.nn.Linear(64, 2)
    last.register_buffer("places", torch.arange(1, 50) / 7)
    last.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    module = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), last)
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.05)


def in_keras(optimizer: str = "sgd") -> Any:
    import keras

    layers = [keras.layers.Dense(128, "relu"), keras.layers.Dense(64, "relu"), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((12,)), *layers])
    adam = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5)  # weights end as averages
    made = keras.optimizers.SGD(0.05, momentum=0.9) if optimizer == "sgd" else adam
    model.compile(made, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def in_keras_lossy(optimizer: str, folder: str) -> Any:
    """The first process that builds it is killed when there is a checkpoint: after two steps, before it has scored."""

    def fall() -> None:
        waiting.until((Path(folder) / "run" / "train.parts" / "manifest").exists, 120)
        os.kill(os.getpid(), signal.SIGKILL)

    if not (Path(folder) / "begun").exists():
        (Path(folder) / "begun").touch()
        threading.Thread(target=fall, daemon=True).start()
    return in_keras(optimizer)


def fit(build: Any, **settings: Any) -> Any:
    return tenfold.Fit(build, (X, Y), **{"epochs": 3, "batch_size": 31, "validation": 0.2, **settings})


def alone(build: Any, params: dict[str, Any], **settings: Any) -> Any:
    return tenfold.map(fit(build, how="alone", **settings), [params], workers=1, progress=False)[0]


def furthest(one: Any, other: Any) -> float:
    """The largest difference of any weight, or of any number in the histories."""
    names = list(one.weights) if isinstance(one.weights, dict) else range(len(one.weights))
    weights = max(float(numpy.abs(one.weights[name] - other.weights[name]).max()) for name in names)
    assert one.history.keys() == other.history.keys()
    told = [numpy.abs(numpy.subtract(one.history[name], other.history[name])).max() for name in one.history]
    return max(weights, *map(float, told))


def told(sharded: Any, whole: Any) -> dict[str, Any]:
    return {
        "error": furthest(sharded, whole),
        "devices": [share.device for share in sharded.shares],
        "parameters": [share.parameters / sharded.whole.parameters for share in sharded.shares],
        "optimizer": [share.optimizer / sharded.whole.optimizer for share in sharded.shares],
        "weights": len(sharded.result.weights),
        "spent": dict(sharded.spent),
        "events": sharded.events,
    }


def main(path: str) -> None:
    """Train the Keras models, in a process whose Keras is on JAX with two devices, and write what came of it."""
    params = {"optimizer": "adam", "seed": 3}
    options = {"workers": 4, "mesh": (2, 2), "layout": {"dense/kernel": (None, None)}}
    folder = str(Path(path).parent)
    options |= {"run": Path(folder) / "run", "checkpoint": 2}
    lossy = {**params, "folder": folder}
    mesh = tenfold.train(fit(in_keras_lossy), lossy, how="sharded", progress=False, **options)
    whole = fit(in_keras)(params)
    two = KerasShards(fit(in_keras), params, (1, 2), None)()  # here: another worker would import everything again
    two.result.build = in_keras
    with open(path, "w") as file:
        json.dump(
            {"mesh": told(mesh, whole), "two": told(two, whole), "diverged": diverged(), "refused": refused()}, file
        )


def refused() -> str:
    """What is said of a layout that is not this model's."""
    try:
        KerasShards(fit(in_keras), {"seed": 3}, (1, 2), {"dens_99": ("model", None)})()
    except BadCall as error:
        return str(error)
    return "nothing"


def diverged() -> str:
    """What is said of a row that is not a number, in the second batch."""
    bad = X.copy()
    bad[40, 2] = numpy.nan
    data = tenfold.Fit(in_keras, (bad, Y), epochs=2, batch_size=31, shuffle=False)
    try:
        KerasShards(data, {"seed": 3}, (1, 2), None)()
    except Diverged as error:
        return str(error)
    return "nothing"
