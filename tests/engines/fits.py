"""A `Fit` on every engine, in a process of its own: prints what became of its models, and how they were trained."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy

import tenfold
from tenfold import engines

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(70, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64") + (X[:, 1] > 0)
ITEMS = [{"lr": lr, "seed": seed} for lr in (0.01, 0.03) for seed in (1, 2)]


def in_keras(lr: float) -> Any:
    import keras

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(lr), loss, metrics=["accuracy"])
    return model


def in_torch(lr: float) -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


def numbers(result: tenfold.FitResult) -> list[float]:
    """Everything that a training comes to, in one list."""
    weights = result.weights.values() if isinstance(result.weights, dict) else result.weights
    history = [value for name in sorted(result.history) for value in result.history[name]]
    return [*history, *(float(value) for array in weights for value in array.ravel())]


def on_every_engine(build: Any) -> dict[str, Any]:
    fit = tenfold.Fit(build, (X, Y), epochs=2, batch_size=16, validation=0.2)
    found = {}
    for engine in engines.names():
        results = tenfold.map(fit, ITEMS, engine=engine, workers=2, progress=False)
        found[engine] = {"how": [r.how for r in results], "numbers": [numbers(r) for r in results]}
    return found


def main() -> None:
    """Both frameworks in one process, which starts clusters once."""
    found = {"keras": on_every_engine(in_keras), "torch": on_every_engine(in_torch)}
    sys.stdout.write(json.dumps(found) + "\n")
