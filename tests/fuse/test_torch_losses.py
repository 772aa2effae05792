"""PyTorch's losses, and layers with weights inside of them: fused or looped, models are what they are alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases
from torch import nn

from tenfold.fuse import order
from tenfold.fuse.fit import Fit

pytestmark = pytest.mark.usefixtures("one_thread")

RATES = [{"lr": 0.01, "seed": 1}, {"lr": 0.03, "seed": 2}, {"lr": 0.1, "seed": 3}]
YES = (cases.classes()[:, None] > 0).astype("float32")
AMOUNTS = cases.rows(6)[:, :2] * 2

LOSSES: dict[str, tuple[Callable[[], Any], int, Any]] = {
    "MSELoss": (nn.MSELoss, 2, AMOUNTS),
    "L1Loss": (nn.L1Loss, 2, AMOUNTS),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(beta=0.5), 2, AMOUNTS),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0])), 1, YES),
    "NLLLoss": (nn.NLLLoss, cases.CLASSES, cases.classes()),
    "class weights": (lambda: nn.CrossEntropyLoss(torch.tensor([0.2, 1.0, 4.0])), cases.CLASSES, cases.classes()),
}
"""A loss, how many numbers come out of the model, and what they are compared with."""


class Attending(nn.Module):
    def __init__(self, weighed: bool) -> None:
        super().__init__()
        self.weighed = weighed
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True, bias=False)
        self.head = nn.Linear(4, cases.CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.inner(x, x, x, need_weights=self.weighed)[0].mean(1))


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, cases.CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.inner(x)[0][:, -1])


def check(fit_with: Callable[[str], Fit], folder: Path) -> tuple[list[Any], list[Any]]:
    """Fused, or looped where that is not possible, and alone; returns both."""
    found, alone = cases.together(fit_with("fused"), RATES, folder), cases.alone(fit_with("alone"), RATES)
    for one, (history, weights, _) in zip(found, alone, strict=True):
        cases.check_same(one, history, weights)
        assert history["loss"][-1] < history["loss"][0]
    return found, alone


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, tmp_path: Path) -> None:
    make, width, targets = LOSSES[name]

    def build(lr: float) -> Any:
        last = [nn.LogSoftmax(1)] if name == "NLLLoss" else []
        module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, width), *last)
        return module, make(), torch.optim.SGD(module.parameters(), lr=lr)

    def fit_with(how: Any) -> Fit:
        return Fit(build, (cases.rows(6), targets), epochs=3, batch_size=12, validation=0.18, how=how)

    found, alone = check(fit_with, tmp_path)
    assert all(one.how.startswith("fused: 3 models") for one in found)
    expected = by_hand(build, targets, **RATES[0])
    for key, array in expected.items():
        numpy.testing.assert_array_equal(alone[0][1][key], array)


def by_hand(build: Any, targets: Any, lr: float, seed: int) -> dict[str, numpy.ndarray]:
    """Plain PyTorch, but for the order of rows."""
    torch.manual_seed(seed)
    module, loss, optimizer = build(lr)
    kind = torch.float32 if targets.dtype.kind == "f" else torch.int64
    x, y = torch.tensor(cases.rows(6), dtype=torch.float32), torch.tensor(targets, dtype=kind)
    for epoch in range(3):
        for places in torch.tensor(order.rows(36, seed, epoch, 0, shuffle=True)).split(12):
            optimizer.zero_grad()
            loss(module(x[places]), y[places]).backward()
            optimizer.step()
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda: Attending(True), "fused: "),
        (lambda: Attending(False), "looped: vmap does not support aten::_scaled_dot_product_"),
        (Remembering, "looped: "),
    ],
    ids=["attention", "attention, its weights not needed", "LSTM"],
)
def test_layers_with_weights_inside(make: Any, how: str, tmp_path: Path) -> None:
    def build(lr: float) -> Any:
        module = make()
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    def fit_with(way: Any) -> Fit:
        return Fit(build, (cases.rows(5, 4), cases.classes()), epochs=3, batch_size=12, validation=0.18, how=way)

    found, _ = check(fit_with, tmp_path)
    assert all(one.how.startswith(how) for one in found), found[0].how
