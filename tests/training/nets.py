"""Small models of PyTorch, their data, and what plain PyTorch makes of them."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time
from typing import Any

import numpy
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test

import tenfold

ROWS = 203  # the last batch of 32 has 11 rows
NOISE = numpy.random.default_rng(0)
X = NOISE.normal(size=(ROWS, 12)).astype("float32")
Y = (X[:, :3].sum(1) > 0).astype("int64")


def build(optimizer: str = "sgd", lr: float = 0.05, norm: bool = False) -> Any:
    import torch

    layers = [torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)]
    if norm:
        layers.insert(1, torch.nn.BatchNorm1d(16))
    module = torch.nn.Sequential(*layers)
    made = torch.optim.SGD(module.parameters(), lr, momentum=0.9) if optimizer == "sgd" else None
    return module, torch.nn.CrossEntropyLoss(), made or torch.optim.Adam(module.parameters(), lr)


def build_keras(lr: float = 0.01) -> Any:
    import keras

    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(lr), loss, metrics=["accuracy"])
    return model


def build_digits() -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), 0.002)


class Slow:
    """A loss that takes a while, and does something at one of its calls, in one process only."""

    def __init__(self, folder: str, act: str, at: int, waits: bool) -> None:
        self.folder = folder
        self.act = act
        self.at = at
        self.waits = waits
        self.calls = 0

    def __call__(self, outputs: Any, targets: Any) -> Any:
        import torch

        time.sleep(0.1 if self.waits and self.is_short_of_one() else 0.005)
        self.calls += 1
        if self.calls == self.at or (self.act == "kill scoring" and not torch.is_grad_enabled()):
            self.mark()
        return torch.nn.functional.cross_entropy(outputs, targets)

    def is_short_of_one(self) -> bool:
        """One is lost, and another one has not taken its place: that is to happen before the end."""
        joined = pathlib.Path(self.folder) / f"{self.act} joined"
        if tenfold.here().attempt > 1:
            joined.touch()
        return (joined.parent / self.act).exists() and not joined.exists()

    def mark(self) -> None:
        try:
            with open(pathlib.Path(self.folder) / self.act, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        if self.act in ("kill", "kill scoring"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.act == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.act == "exit":
            sys.exit(3)
        elif self.act == "kill all":
            os.killpg(os.getppid(), signal.SIGKILL)
            signal.pause()  # the nursery takes a moment to go, and we go with it: nothing may end before that


class Costly:
    """A loss that takes its time for each row, or for each step; raises once in all, where it is told when."""

    def __init__(self, row: float, step: float, folder: str, at: int, whole: bool) -> None:
        self.whole = whole  # it cannot be divided
        self.row = row
        self.step = step
        self.folder = folder
        self.left = at

    def __call__(self, outputs: Any, targets: Any) -> Any:
        import torch

        if self.whole and len(outputs) == 16:
            raise MemoryError("half of a batch")
        time.sleep(self.row * len(outputs) + self.step)
        self.left -= 1
        raised = pathlib.Path(self.folder) / "raised"
        if self.left == 0 and not raised.exists():
            raised.touch()
            raise OSError("once")
        return torch.nn.functional.cross_entropy(outputs, targets)


def build_costly(
    row: float = 0.0, step: float = 0.0, core: float = 0.0, folder: str = "", at: int = 0, whole: bool = False
) -> Any:
    """`core` is a step's time for each core that the worker has, as of threads that wait for each other."""
    import torch

    module, _, optimizer = build("adam", 0.01)
    if core:
        torch.set_num_threads(1)  # real ones would wait for others on a busy machine
        step += core * len(os.sched_getaffinity(0))
    return module, Costly(row, step, folder, at, whole), optimizer


def build_differing(folder: str, seen: str = "weights") -> Any:
    """Weights of each worker's own, or rates; each keeps what it has in a file."""
    import torch

    own = float(numpy.random.default_rng().normal())
    module = torch.nn.Linear(12, 2)
    with torch.no_grad():
        module.weight.fill_(own if seen == "weights" else 1.0)
    module.register_forward_hook(
        lambda module, *_: numpy.save(pathlib.Path(folder, f"{tenfold.here().index}.npy"), module.weight.detach())
    )
    optimizer = torch.optim.SGD(module.parameters(), 0.05 if seen == "weights" else 0.01 + abs(own))
    return module, torch.nn.CrossEntropyLoss(), optimizer


def build_slow(folder: str, act: str, at: int = 20, waits: bool = False) -> Any:
    """`waits` makes steps longer while one is missing, so that another one can join."""
    module, _, optimizer = build("adam", 0.01)
    return module, Slow(folder, act, at, waits), optimizer


def build_scoring_slowly() -> Any:
    """One worker takes much longer for its rows than for a step, and than the others; patience with it is short."""
    import torch

    from tenfold.training import attendance

    attendance.USUAL, attendance.TIMES = 0.2, 1

    def loss(outputs: Any, targets: Any) -> Any:
        if tenfold.here().index == 1 and not torch.is_grad_enabled():
            time.sleep(0.8)
        return torch.nn.functional.cross_entropy(outputs, targets)

    module, _, optimizer = build()
    return module, loss, optimizer


def build_stopping(folder: str) -> Any:
    """One worker is stopped while it builds its model, once."""
    if tenfold.here().index == 1:
        Slow(folder, "stop", 0, waits=False).mark()
    return build()


class Counted:
    """A loss that counts how many steps each worker has begun, in a file that all map; the first worker is slow."""

    def __init__(self, path: str) -> None:
        self.begun, self.leads = numpy.memmap(path, numpy.int64, "r+", shape=(2, 3))

    def __call__(self, outputs: Any, targets: Any) -> Any:
        import torch

        own = tenfold.here().index
        self.begun[own] += 1
        self.leads[own] = max(self.leads[own], self.begun[own] - self.begun.min())
        time.sleep(0.02 if own == 0 else 0.001)
        return torch.nn.functional.cross_entropy(outputs, targets)


def build_counted(path: str) -> Any:
    module, _, optimizer = build()
    return module, Counted(path), optimizer


def fit(function: Any = build, **settings: Any) -> Any:
    return tenfold.Fit(function, (X, Y), **{"epochs": 8, "batch_size": 32, "validation": 0.2, **settings})


def furthest(one: Any, other: Any) -> float:
    """The largest difference of any weight."""
    assert one.keys() == other.keys()
    return max(float(numpy.abs(one[name] - other[name]).max()) for name in one)
