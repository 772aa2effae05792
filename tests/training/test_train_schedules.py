"""`tenfold.train` with a learning-rate scheduler of PyTorch: the rate follows the epochs in every worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nets
import numpy
import pytest

import tenfold
from tenfold.errors import BadCall
from tenfold.fuse import order

SEED = 3
EPOCHS = 5
TRAINED = 162  # of 203: the others score


def scheduled(folder: str = "", act: str = "kill", name: str = "warm up") -> Any:
    """With a folder, one of the workers, or all of them, are killed in the third epoch or later."""
    from torch.optim import lr_scheduler

    module, loss, optimizer = nets.build("adam", 0.05)
    schedulers = {
        "warm up": lambda: lr_scheduler.SequentialLR(
            optimizer,
            [lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 2), lr_scheduler.ExponentialLR(optimizer, 0.3)],
            [2],
        ),
        "plateau": lambda: lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, threshold=0.5),
        "first only": lambda: lr_scheduler.LambdaLR(optimizer, lambda epoch: float(epoch == 0)),
    }
    return module, nets.Slow(folder, act, 20, waits=False) if folder else loss, optimizer, schedulers[name]()


def by_hand(name: str) -> tuple[dict[str, numpy.ndarray], list[float]]:
    """Plain PyTorch, with a step of the scheduler after each epoch: weights, and the rates of the epochs."""
    import torch

    torch.manual_seed(SEED)
    module, loss, optimizer, scheduler = scheduled(name=name)
    x, y = torch.from_numpy(nets.X), torch.from_numpy(nets.Y)
    rates = []
    for epoch in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        for rows in torch.tensor(order.rows(TRAINED, SEED, epoch, 0, shuffle=True)).split(32):
            optimizer.zero_grad()
            loss(module(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            scored = float(loss(module(x[TRAINED:]), y[TRAINED:]))
        scheduler.step(*((scored,) if name == "plateau" else ()))
    return {key: tensor.numpy() for key, tensor in module.state_dict().items()}, rates


def train(params: dict[str, Any], **settings: Any) -> Any:
    fit = nets.fit(scheduled, epochs=EPOCHS)
    return tenfold.train(fit, {"seed": SEED, **params}, progress=False, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("warm up", {"workers": 1}),
        ("warm up", {"workers": 2}),
        ("plateau", {"workers": 2}),
        ("plateau", {"workers": 1, "how": "asynchronous"}),
    ],
)
def test_it_is_what_one_writes_by_hand(name: str, settings: dict[str, Any]) -> None:
    weights, rates = by_hand(name)
    assert len(set(rates)) > 2
    assert nets.furthest(train({"name": name}, **settings).weights, weights) < 1e-5


def test_killed_as_a_whole_it_goes_on_with_the_rate_of_then(tmp_path: Path) -> None:
    params = {"folder": str(tmp_path), "act": "kill all"}
    trained = train(params, workers=2, run=str(tmp_path / "run"), checkpoint=7)
    begun = [int(event.rpartition(" ")[2]) for event in trained.events if "go on at step" in event]
    assert begun[-1] >= 7, trained.events
    assert nets.furthest(trained.weights, by_hand("warm up")[0]) < 1e-5


@pytest.mark.parametrize("settings", [{}, {"average_every": 2}], ids=["asynchronous", "averaging"])
def test_nobody_learns_where_the_rate_is_nothing(settings: dict[str, Any]) -> None:
    trained = train({"name": "first only"}, workers=2, how="asynchronous", **settings)
    first, *others = trained.history["val_loss"]
    numpy.testing.assert_allclose(others, first, rtol=1e-6)
    free = tenfold.train(nets.fit(epochs=2), {"seed": SEED}, workers=2, how="asynchronous", progress=False, **settings)
    assert abs(free.history["val_loss"][1] - free.history["val_loss"][0]) > 1e-4 * first


def test_a_module_in_parts_that_starts_again(tmp_path: Path) -> None:
    weights, _ = by_hand("warm up")
    trained = train(
        {"folder": str(tmp_path)}, how="sharded", workers=2, cpus=1, run=str(tmp_path / "run"), checkpoint=4
    )
    assert (tmp_path / "kill").exists()
    assert any("start again from step" in event for event in trained.events)
    assert nets.furthest(trained.weights, weights) < 1e-5


def test_weights_that_are_cut_have_no_scheduler() -> None:
    with pytest.raises(BadCall, match="leave out the scheduler, or mesh="):
        train({}, how="sharded", workers=2, cpus=1, mesh=(1, 2), layout={"0.weight": ("model", None)})
