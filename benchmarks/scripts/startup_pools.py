"""Two pools of fresh workers, one after the other, each worker training a small Keras model.

Arguments: LIBRARY WORKERS. Prints JSON: for each pool the seconds until the last worker has trained, the private
memory (USS) of each worker at that moment, and the memory of all processes of this script together (PSS).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pools


def train(meeting: tuple[str, int, int, int]) -> tuple[float, int, int]:
    """When it was done, this worker's private memory, and everybody's, which the first worker weighs."""
    folder, index, count, root = meeting
    import keras
    import numpy as np

    x, y = np.ones((256, 8), "float32"), np.ones((256, 1), "float32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, epochs=2, batch_size=32, verbose=0)
    done = time.monotonic()  # one clock for all processes of a machine

    import psutil

    pools.meet(f"{folder}/trained", count)
    private = psutil.Process().memory_full_info().uss
    pools.meet(f"{folder}/weighed", count)
    return done, private, _everybody(root) if index == 0 else 0


def _everybody(root: int) -> int:
    import psutil

    family = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    return sum(process.memory_full_info().pss for process in family)


def pool(library: str, workers: int, folder: Path) -> dict[str, object]:
    folder.mkdir()
    items = [(str(folder), index, workers, os.getpid()) for index in range(workers)]
    began = time.monotonic()
    found = pools.run(library, train, items)
    return {
        "seconds": max(done for done, _, _ in found) - began,
        "private": [private for _, private, _ in found],
        "everybody": found[0][2],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps([pool(sys.argv[1], int(sys.argv[2]), Path(place, name)) for name in ("first", "second")]))
