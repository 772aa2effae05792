"""Small PyTorch models, and ways to train them: as groups in this process, and each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from torch import nn
from torch.nn import functional

from tenfold.fuse import torch_plain
from tenfold.fuse.building import Member, construct, member
from tenfold.fuse.checkpoint import Checkpoints
from tenfold.fuse.fit import Fit
from tenfold.fuse.group import Group
from tenfold.fuse.reading import Reading
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


class Sly(nn.Linear):
    """Does something else where it is fused."""

    def forward(self, x: Any) -> Any:
        fused = torch._C._functorch.is_functorch_wrapped_tensor(self.weight)
        return super().forward(x) * (2.0 if fused else 1.0)


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
    workshop = TorchWorkshop(fit, Reading(fit, own).sample)
    return workshop, own, [workshop.take(construct(fit.build, one.params)) for one in own]


def together(fit: Fit, params: list[dict[str, Any]], folder: Path) -> list[Any]:
    """Results of models that are trained as groups."""
    workshop, own, models = taken(fit, params)
    found: dict[int, Any] = {}
    for places in workshop.same(models):
        some = [own[place] for place in places]
        stack, chunk, why = workshop.stack([models[place] for place in places], fit.rows_of(some[0])[0], None)
        how = f"{'fused' if chunk > 1 else 'looped'}: {why}"
        found |= Group(fit, stack, some, Reading(fit, some), how, stopping=workshop.stopping(models[0])).train(
            Checkpoints(folder, str(places[0])), chunk
        )
    return [found[one.index] for one in own]


def alone(fit: Fit, params: list[dict[str, Any]]) -> list[tuple[Any, Any, Any]]:
    """(history, weights, best epoch) of models that are trained each by itself."""
    found = [torch_plain.train(fit, one, construct(fit.build, one.params), "alone") for one in members(fit, params)]
    return [(one.history, one.weights, one.best_epoch) for one in found]


def check_same(one: Any, history: Any, weights: Any, *, rtol: float = 1e-4) -> None:
    """The same numbers, but for rounding; to the bit where `rtol` is 0."""
    assert list(one.history) == list(history)
    for name, values in history.items():
        numpy.testing.assert_allclose(one.history[name], values, rtol=rtol, atol=rtol / 10, err_msg=name)
    assert list(one.weights) == list(weights)
    for name, array in weights.items():
        assert one.weights[name].dtype == array.dtype
        numpy.testing.assert_allclose(one.weights[name], array, rtol=rtol, atol=rtol / 10, err_msg=name)


def check_parity(
    fit_settings: dict[str, Any], params: list[dict[str, Any]], folder: Path, kind: str = "dense"
) -> list[Any]:
    """Fused, looped and alone; returns what was fused."""
    fused = together(fit_of(kind, how="fused", **fit_settings), params, folder)
    looped = together(fit_of(kind, how="looped", **fit_settings), params, folder)
    for one, other, (history, weights, best) in zip(
        fused, looped, alone(fit_of(kind, **fit_settings), params), strict=True
    ):
        assert one.how.startswith("fused: "), one.how
        assert other.how == 'looped: how="looped" was asked for'
        assert one.best_epoch == other.best_epoch == best
        check_same(one, history, weights)
        check_same(other, history, weights, rtol=0)
    return fused


def check_looped(reason: str, fit: Any, params: list[dict[str, Any]], folder: Path) -> None:
    found = together(fit, params, folder)
    for one, (history, weights, _) in zip(found, alone(fit, params), strict=True):
        assert reason in one.how
        assert one.how.startswith("looped: ")
        check_same(one, history, weights, rtol=0)


# -- tables ----------------------------------------------------------------------------------------------------------

REASONS = {
    "gru": "(GRU) holds weights besides the parameters",
    "dropout": "Dropout draws from PyTorch's global random numbers",
    "counting": "its forward pass changes the attribute calls of the module",
    "deciding": "vmap does not support Deciding: ",
    "forgetful": "the parameter spare.weight has no part in the loss",
    "cumulative batch norm": "vmap does not support Sequential: ",
}

OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.02, "weight_decay": 0.1}],
    "SGD momentum": [{"momentum": 0.9, "dampening": 0.3}, {"momentum": 0.5, "weight_decay": 0.1, "lr": 0.1}],
    "SGD nesterov": [{"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "nesterov": True, "lr": 0.1}],
    "Adam": [{"betas": (0.8, 0.9)}, {"betas": (0.9, 0.999), "weight_decay": 0.1, "eps": 1e-3, "lr": 0.1}],
    "Adam amsgrad": [{"amsgrad": True}, {"amsgrad": True, "betas": (0.5, 0.6), "lr": 0.1}],
    "AdamW": [{"weight_decay": 0.3}, {"weight_decay": 0.0, "lr": 0.1}, {"betas": (0.7, 0.95)}],
    "RMSprop": [{"alpha": 0.8}, {"alpha": 0.99, "weight_decay": 0.1, "eps": 1e-3}],
    "RMSprop momentum": [{"momentum": 0.9}, {"momentum": 0.2, "lr": 0.02}],
    "RMSprop centered": [{"centered": True, "alpha": 0.8}, {"centered": True, "momentum": 0.0, "lr": 0.001}],
    "RMSprop both": [{"centered": True, "momentum": 0.3}, {"centered": True, "momentum": 0.6, "lr": 0.001}],
    "NAdam": [{"momentum_decay": 0.1}, {"betas": (0.7, 0.9), "weight_decay": 0.1, "lr": 0.05}],
    "NAdam decoupled": [
        {"decoupled_weight_decay": True, "weight_decay": 0.5},
        {"decoupled_weight_decay": True, "momentum_decay": 0.3},
    ],
}


def built_with(change: Any) -> Any:
    def changed(lr: float) -> tuple[Any, Any, Any]:
        module, loss, optimizer = build(lr=lr)
        return change(module, loss, optimizer) or (module, loss, optimizer)

    return changed


UNUSUAL: dict[str, tuple[str, Any]] = {
    "optimizer": (
        "the optimizer Adagrad has no fused form",
        lambda m, f, o: (m, f, torch.optim.Adagrad(m.parameters())),
    ),
    "groups": (
        "several groups of parameters with different settings",
        lambda m, f, o: (
            m,
            f,
            torch.optim.SGD([{"params": m[0].parameters(), "lr": 1.0}, {"params": m[2].parameters()}]),
        ),
    ),
    "maximize": ("Adam(maximize=True)", lambda m, f, o: (m, f, torch.optim.Adam(m.parameters(), maximize=True))),
    "hook": ("has hooks", lambda m, f, o: m[0].register_forward_hook(lambda *_: None) and None),
    "parameter hook": (
        "the parameter 0.weight has hooks",
        lambda m, f, o: m[0].weight.register_hook(lambda g: 2 * g) and None,
    ),
    "loss": ("the loss holds parameters", lambda m, f, o: (m, lambda out, y: f(out, y) + m[0].weight.sum() ** 2, o)),
}


def variant(**changes: Any) -> tuple[Any, Any, Any]:
    rate, width = changes.get("rate", 0.1), changes.get("width", 8)
    module = nn.Sequential(nn.Linear(6, width), nn.LeakyReLU(rate), nn.Linear(width, CLASSES))
    module[1].note = changes.get("note")
    loss = nn.CrossEntropyLoss(label_smoothing=changes.get("smoothing", 0.0), weight=changes.get("weight"))
    loss = changes.get("loss", loss)
    optimizer = getattr(torch.optim, changes.get("optimizer", "SGD"))
    return module, loss, optimizer(module.parameters(), lr=0.1, **changes.get("settings", {}))


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"width": 9}, "shapes differ in 0.weight: (8, 6) and (9, 6)"),
    ({"rate": 0.2}, "the attribute negative_slope of layer 1 differs: 0.1 and 0.2"),
    ({"note": 1}, "the attribute note of layer 1 differs: None and 1"),
    ({"smoothing": 0.1}, "the attribute label_smoothing of the loss differs: 0.0 and 0.1"),
    ({"weight": torch.ones(3)}, "the loss differs"),
    ({"loss": functional.cross_entropy}, "the loss differs"),
    ({"optimizer": "Adam"}, "the class of the optimizer differs: 'SGD' and 'Adam'"),
    ({"settings": {"momentum": 0.9}}, "the switches of the optimizer differs: [] and ['momentum']"),
]
