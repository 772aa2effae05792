"""Small trainings, one per framework, that draw all their random numbers from the global generators.

Each imports its framework by itself: the tests' own process never does. `digests` runs one of them on every engine.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy


def in_numpy(item: int) -> list[Any]:
    x = numpy.random.randn(200, 8)
    y = x @ numpy.random.randn(8, 1) + item
    weights = numpy.random.randn(8, 1)
    for _ in range(20):
        rows = numpy.random.permutation(200)[:50]
        weights -= 0.05 * x[rows].T @ (x[rows] @ weights - y[rows]) / 50
    return [weights, random.random()]


def in_torch(item: int) -> list[Any]:
    import torch

    x = torch.randn(96, 8)
    y = x.sum(1, keepdim=True) + item
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(5):
        for rows in torch.randperm(96).split(32):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return [parameter.detach().numpy() for parameter in model.parameters()]


def in_keras(item: int) -> list[Any]:
    import keras

    x = numpy.random.randn(64, 8).astype("float32")
    y = x.sum(axis=1, keepdims=True) + item
    model = keras.Sequential(
        [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    )
    model.compile(optimizer="adam", loss="mse")
    model.fit(x, y, epochs=1, batch_size=16, verbose=0)
    return list(model.get_weights())


def seed_numpy(number: int) -> None:
    random.seed(number)
    numpy.random.seed(number)


def seed_torch(number: int) -> None:
    import torch

    seed_numpy(number)
    torch.manual_seed(number)


def seed_keras(number: int) -> None:
    import keras

    keras.utils.set_random_seed(number)


SEEDING: dict[str, Callable[[int], None]] = {"in_numpy": seed_numpy, "in_torch": seed_torch, "in_keras": seed_keras}


def digest(values: list[Any]) -> str:
    found = hashlib.sha256()
    for value in values:
        found.update(numpy.asarray(value).tobytes())
    return found.hexdigest()[:16]


def digests(name: str, tasks: int) -> dict[str, list[str]]:
    """How -> the digest of each task's weights: in a plain loop, and on every engine.

    With 1, 2 and 3 workers on this machine, where there are tasks for them; on clusters, which start slowly, with 2.
    Every worker of joblib imports its framework by itself, so that those with a heavy one are 2 as well.
    """
    import tenfold
    from tenfold import engines

    train = globals()[name]
    found = {}
    for engine in engines.names():
        abilities = engines.find(engine).abilities
        fewer = abilities.stops == "there" or (engine == "joblib" and name == "in_keras")
        several = (2,) if fewer else range(1, min(3, tasks) + 1)
        for workers in several if abilities.parallel else (1,):
            results = tenfold.map(train, range(tasks), engine=engine, workers=workers, seed=42)
            found[f"{engine}, {workers} workers"] = [digest(values) for values in results]
    found["a plain loop"] = []
    for item, own in enumerate(numpy.random.SeedSequence(42).spawn(tasks)):
        SEEDING[name](int(own.generate_state(1)[0]))
        found["a plain loop"].append(digest(train(item)))
    return found


def main(trainings: dict[str, int]) -> None:
    """Name of a training -> how many tasks: all in one process, which starts clusters once."""
    sys.stdout.write(json.dumps({name: digests(name, tasks) for name, tasks in trainings.items()}) + "\n")
