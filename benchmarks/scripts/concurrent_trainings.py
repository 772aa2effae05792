"""Two trainings of a mid-size model, at the same time or one after the other.

Arguments: FRAMEWORK LIBRARY EPOCHS. Prints JSON: seconds from the first step of the first to the last step of the
last, the last loss of each, and the threads that its process had. Imports, building and compiling are over before
the first step.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pools

ROWS, BATCH, TRAININGS = 4096, 512, 2


def train_keras(meeting: tuple[str, int, int]) -> dict[str, float]:
    """When it began and ended, its last loss, and with how many threads."""
    folder, epochs, count = meeting
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    x, y = np.random.rand(ROWS, 784).astype("float32"), np.random.randint(0, 10, ROWS)
    layers = [keras.layers.Dense(512, "relu"), keras.layers.Dense(512, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((784,)), *layers])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)  # compiles the step

    pools.meet(folder, count)
    began = time.monotonic()
    history = model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0).history
    return {"began": began, "ended": time.monotonic(), "loss": history["loss"][-1], "threads": _threads()}


def train_torch(meeting: tuple[str, int, int]) -> dict[str, float]:
    """When it began and ended, its last loss, and with how many threads."""
    folder, epochs, count = meeting
    import torch
    from torch import nn

    torch.manual_seed(0)
    x, y = torch.rand(ROWS, 784), torch.randint(0, 10, (ROWS,))
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer, loss_of = torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss()

    def step(first: int) -> float:
        optimizer.zero_grad()
        loss = loss_of(model(x[first : first + BATCH]), y[first : first + BATCH])
        loss.backward()
        optimizer.step()
        return float(loss.item())

    step(0)
    pools.meet(folder, count)
    began = time.monotonic()
    for _ in range(epochs):
        losses = [step(first) for first in range(0, ROWS, BATCH)]
    return {"began": began, "ended": time.monotonic(), "loss": sum(losses) / len(losses), "threads": _threads()}


def _threads() -> int:
    import psutil

    return psutil.Process().num_threads()


TASKS: dict[str, Callable[[tuple[str, int, int]], dict[str, float]]] = {
    "keras": train_keras,
    "torch": train_torch,
}


def main(framework: str, library: str, epochs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A plain loop's trainings meet nobody.
        together = 1 if library == "loop" else TRAININGS
        items = [(str(Path(folder, "ready")), epochs, together)] * TRAININGS
        found = pools.run(library, TASKS[framework], items)
    if library == "loop":
        seconds = sum(one["ended"] - one["began"] for one in found)
    else:
        seconds = max(one["ended"] for one in found) - min(one["began"] for one in found)
    rest = {name: [one[name] for one in found] for name in ("loss", "threads")}
    print(json.dumps({"seconds": seconds, **rest}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
