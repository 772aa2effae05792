"""PyTorch models that have something in common, made outside of `build`: refused where training would change it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_cases as cases
from torch import nn

from tenfold.errors import BadCall


def test_weights_of_two_models_are_refused_unless_they_are_frozen() -> None:
    backbone = nn.Linear(6, 8)

    def build(lr: float, *, frozen: bool) -> tuple[Any, Any, Any]:
        module = nn.Sequential(backbone.requires_grad_(not frozen), nn.Linear(8, cases.CLASSES))
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)

    fit = cases.fit_of("dense", build=build)
    for lr in (0.1, 0.2):
        assert fit({"lr": lr, "frozen": True, "seed": 0}).epochs == 3
    fit({"lr": 0.1, "frozen": False, "seed": 0})
    with pytest.raises(BadCall, match=r"weights that another model has, too.*deepcopy"):
        fit({"lr": 0.2, "frozen": False, "seed": 0})


class _Still(nn.BatchNorm1d):
    """Stays in evaluation mode, as one freezes a norm in PyTorch."""

    def train(self, mode: bool = True) -> _Still:
        return super().train(False)


def test_running_statistics_of_two_models_are_refused_unless_they_stand_still() -> None:
    def fit_with(norm: nn.Module) -> Any:
        def build(lr: float) -> tuple[Any, Any, Any]:
            head = nn.Linear(6, cases.CLASSES)
            module = nn.Sequential(norm.requires_grad_(False), head)
            return module, nn.CrossEntropyLoss(), torch.optim.SGD(head.parameters(), lr)

        return cases.fit_of("dense", build=build)

    for norm in (_Still(6), nn.BatchNorm1d(6, track_running_stats=False), nn.BatchNorm1d(6, momentum=0.0)):
        for lr in (0.1, 0.2):
            assert fit_with(norm)({"lr": lr, "seed": 0}).epochs == 3
    moving = fit_with(nn.BatchNorm1d(6))
    moving({"lr": 0.1, "seed": 0})
    with pytest.raises(BadCall, match=r"running statistics that another model has, too.*deepcopy"):
        moving({"lr": 0.2, "seed": 0})
