"""Small PyTorch models, and ways to train them: as groups in this process, and each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from torch import nn

from tenfold.fuse import torch_plain
from tenfold.fuse.building import Member, construct, member
from tenfold.fuse.checkpoint import Checkpoints
from tenfold.fuse.feed import Feed
from tenfold.fuse.fit import Fit
from tenfold.fuse.group import Group
from tenfold.fuse.torch import TorchWorkshop

ROWS = 44  # three batches of 12, and 8 rows that are not a whole one
CLASSES = 3


def rows(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=(ROWS, *shape))


def classes(seed: int = 1) -> numpy.ndarray:
    return numpy.random.default_rng(seed).integers(0, CLASSES, ROWS)


def words() -> numpy.ndarray:
    return numpy.random.default_rng(2).integers(0, 9, (ROWS, 4))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(2, 5, batch_first=True)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.inner(x)[0][:, -1])


class Tied(nn.Module):
    """One matrix, used twice under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(6, 6, bias=False)
        self.two = nn.Linear(6, 6, bias=False)
        self.two.weight = self.one.weight
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.two(torch.tanh(self.one(x))))


class Counting(nn.Module):
    """Changes itself in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.head(x) / self.calls


class Deciding(nn.Module):
    """Looks at the value of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Any) -> Any:
        found = self.head(x)
        return found if found.sum() > 0 else 2 * found


class Forgetful(nn.Module):
    """Has a layer that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)
        self.spare = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.head(x)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, CLASSES)

    def forward(self, left: Any, right: Any) -> Any:
        return self.head(left * right)


def module(kind: str) -> nn.Module:
    """A model of this kind."""
    made = {
        "dense": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES)),
        "conv": lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES)
        ),
        "batch norm": lambda: nn.Sequential(
            nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8, momentum=0.3), nn.ReLU(), nn.Linear(8, CLASSES)
        ),
        "layer norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, CLASSES)),
        "embedding": lambda: nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(16, CLASSES)),
        "gru": Recurrent,
        "tied": Tied,
        "counting": Counting,
        "deciding": Deciding,
        "forgetful": Forgetful,
        "two inputs": TwoInputs,
        "dropout": lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, CLASSES)),
        "cumulative batch norm": lambda: nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, CLASSES)),
        "in place": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, CLASSES)),
    }
    return made[kind]()


def inputs(kind: str) -> Any:
    """What a model of this kind takes."""
    if kind == "two inputs":
        return {"left": rows(6), "right": rows(6, seed=5)}
    return {"conv": lambda: rows(1, 4, 4), "embedding": words, "gru": lambda: rows(3, 2)}.get(kind, lambda: rows(6))()


def build(kind: str = "dense", optimizer: str = "Adam", lr: float = 0.01, **settings: Any) -> tuple[Any, Any, Any]:
    made = module(kind)
    return made, nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(made.parameters(), lr=lr, **settings)


def fit_of(kind: str, *, how: str = "fused", weight: Any = None, **settings: Any) -> Fit:
    data = (inputs(kind), classes()) if weight is None else (inputs(kind), classes(), weight)
    given: dict[str, Any] = {"epochs": 3, "batch_size": 12, "validation": 0.18, "metrics": ["accuracy"], "how": how}
    given |= settings
    return Fit(given.pop("build", build), data, **given)


def members(fit: Fit, params: list[dict[str, Any]]) -> list[Member]:
    return [member(one, index, index, len(fit.data), lambda epoch, logs: None) for index, one in enumerate(params)]


def taken(fit: Fit, params: list[dict[str, Any]]) -> tuple[TorchWorkshop, list[Member], list[Any]]:
    """A workshop, and the models of these parameters in it."""
    own = members(fit, params)
    workshop = TorchWorkshop(fit, Feed(fit, own).sample)
    return workshop, own, [workshop.take(construct(fit.build, one.params)) for one in own]


def together(fit: Fit, params: list[dict[str, Any]], folder: Path) -> list[Any]:
    """Results of models that are trained as groups."""
    workshop, own, models = taken(fit, params)
    found: dict[int, Any] = {}
    for places in workshop.same(models):
        some = [own[place] for place in places]
        stack, chunk, why = workshop.stack([models[place] for place in places], fit.rows_of(some[0])[0], None)
        how = f"{'fused' if chunk > 1 else 'looped'}: {why}"
        found |= Group(fit, stack, some, Feed(fit, some), how).train(Checkpoints(folder, str(places[0])), chunk)
    return [found[one.index] for one in own]


def alone(fit: Fit, params: list[dict[str, Any]]) -> list[tuple[Any, Any, Any]]:
    """(history, weights, best epoch) of models that are trained each by itself."""
    return [torch_plain.train(fit, one, construct(fit.build, one.params)) for one in members(fit, params)]


def check_same(one: Any, history: Any, weights: Any, *, rtol: float = 1e-4) -> None:
    """The same numbers, but for rounding; to the bit where `rtol` is 0."""
    assert list(one.history) == list(history)
    for name, values in history.items():
        numpy.testing.assert_allclose(one.history[name], values, rtol=rtol, atol=rtol / 10, err_msg=name)
    assert list(one.weights) == list(weights)
    for name, array in weights.items():
        assert one.weights[name].dtype == array.dtype
        numpy.testing.assert_allclose(one.weights[name], array, rtol=rtol, atol=rtol / 10, err_msg=name)
