"""Learning-rate schedulers of PyTorch are stepped after each epoch, wherever models are trained: as by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import leg_cases
import numpy
import pytest
import torch
import torch_cases as cases
from torch import nn
from torch.optim import lr_scheduler

from tenfold.errors import BadCall
from tenfold.fuse import order
from tenfold.fuse.building import construct
from tenfold.fuse.torch_plain import Single, unpacked
from tenfold.fuse.torch_step import Randomness
from tenfold.work.run import Declined

pytestmark = pytest.mark.usefixtures("one_thread")

EPOCHS = 4
RATES = [{"lr": 0.1, "seed": 1}, {"lr": 0.03, "seed": 2}, {"lr": 0.01, "seed": 3}]

SCHEDULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "step": ("SGD", lambda o: lr_scheduler.StepLR(o, 2, 0.1)),
    "exponential": ("RMSprop", lambda o: lr_scheduler.ExponentialLR(o, 0.3)),
    "cosine": ("AdamW", lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS, 1e-4)),
    "lambda": ("NAdam", lambda o: lr_scheduler.LambdaLR(o, lambda epoch: epoch / 2)),  # nothing is learned at first
    "one cycle": ("Adam", lambda o: lr_scheduler.OneCycleLR(o, 0.1, EPOCHS)),  # its betas, too
    "warm up": (
        "Adam",
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 2), lr_scheduler.ExponentialLR(o, 0.5)], [2]
        ),
    ),
    "plateau": ("SGD", lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.1, patience=0, threshold=0.2)),
}


def build_with(name: str) -> Callable[..., Any]:
    optimizer, schedule = SCHEDULES[name]

    def build(lr: float) -> Any:
        module, loss, made = cases.build(optimizer=optimizer, lr=lr)
        return module, loss, made, schedule(made)

    return build


def by_hand(build: Any, lr: float, seed: int) -> tuple[dict[str, numpy.ndarray], list[float], list[float]]:
    """Weights, losses of the epochs, and the rates they had: plain PyTorch, with a step of the scheduler after each."""
    torch.manual_seed(seed)
    module, loss, optimizer, scheduler = build(lr)
    x, y = torch.tensor(cases.rows(6), dtype=torch.float32), torch.tensor(cases.classes())
    losses, rates = [], []
    for epoch in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        total = 0.0
        for places in torch.tensor(order.rows(36, seed, epoch, 0, shuffle=True)).split(12):
            optimizer.zero_grad()
            found = loss(module(x[places]), y[places])
            found.backward()
            optimizer.step()
            total += float(found.detach()) * len(places)
        losses.append(total / 36)
        with torch.no_grad():
            scored = float(loss(module(x[36:]), y[36:]))
        given = (scored,) if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else ()
        scheduler.step(*given)
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}, losses, rates


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_what_one_writes_by_hand(name: str, tmp_path: Path) -> None:
    build = build_with(name)
    found = cases.check_parity({"build": build, "epochs": EPOCHS}, RATES, tmp_path)
    looped = cases.together(cases.fit_of("dense", build=build, epochs=EPOCHS, how="looped"), RATES, tmp_path)
    for one, exact, params in zip(found, looped, RATES, strict=True):
        weights, losses, rates = by_hand(build, **params)
        assert len(set(rates)) > 1, "or nothing is scheduled"
        assert exact.history["loss"] == losses
        numpy.testing.assert_allclose(one.history["loss"], losses, rtol=1e-4)
        for key, array in weights.items():
            numpy.testing.assert_array_equal(exact.weights[key], array)
            numpy.testing.assert_allclose(one.weights[key], array, rtol=1e-4, atol=1e-5)


def test_different_schedules_are_one_program_and_none_is_another() -> None:
    def build(name: str) -> Any:
        module, loss, optimizer = cases.build()
        return (module, loss, optimizer, SCHEDULES[name][1](optimizer)) if name else (module, loss, optimizer)

    workshop, _, models = cases.taken(
        cases.fit_of("dense", build=build), [{"name": name} for name in ("step", "cosine", "", "plateau")]
    )
    assert workshop.same(models) == [[0, 1, 3], [2]]


@pytest.mark.parametrize("how", ["fused", "looped", "alone"])
@pytest.mark.parametrize("name", ["warm up", "plateau", "one cycle"])
def test_it_goes_on_where_it_was(name: str, how: str) -> None:
    found = leg_cases.check_legs(leg_cases.fit_of(build_long(name), how), RATES, (1, 3))
    assert all(one.how.startswith(how) for one in found)


def build_long(name: str) -> Callable[..., Any]:
    """For as many epochs as legs have."""
    if name != "one cycle":
        return build_with(name)

    def build(lr: float) -> Any:
        module, loss, optimizer = cases.build(lr=lr)
        return module, loss, optimizer, lr_scheduler.OneCycleLR(optimizer, 0.1, leg_cases.EPOCHS)

    return build


@pytest.mark.parametrize("how", ["fused", "looped", "alone"])
def test_a_study_goes_on_with_another_rate_on_the_same_schedule(how: str) -> None:
    def in_one_go(lr: float, later: float) -> Any:
        module, loss, optimizer = cases.build(lr=lr)
        rates = [lr, lr / 2, *(later / 2**epoch for epoch in range(2, leg_cases.EPOCHS + 1))]
        return module, loss, optimizer, lr_scheduler.LambdaLR(optimizer, lambda epoch: rates[epoch] / lr)

    def halved(lr: float) -> Any:
        module, loss, optimizer = cases.build(lr=lr)
        return module, loss, optimizer, lr_scheduler.ExponentialLR(optimizer, 0.5)

    leg_cases.check_another_rate(leg_cases.fit_of(halved, how), leg_cases.fit_of(in_one_go, "alone"), (0.003, 0.03), 4)


def test_a_state_may_be_put_where_others_were() -> None:
    """Also one from before: the schedule goes back."""
    module, loss, optimizer, schedule = unpacked(construct(build_with("warm up"), RATES[0]))
    single = Single((module, loss, optimizer, schedule), (), 12, Randomness())
    rates, states = [], []
    for _ in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        states.append(single.state())
        single.close({"loss": 1.0})
    assert len(set(rates)) == EPOCHS
    for place in (2, 0, 3, 1):
        single.put(states[place])
        assert optimizer.param_groups[0]["lr"] == rates[place]


def test_a_schedule_that_changes_more_than_numbers_is_declined(tmp_path: Path) -> None:
    class Nesterov(lr_scheduler.LRScheduler):
        def get_lr(self) -> Any:
            self.optimizer.param_groups[0]["nesterov"] = self.last_epoch > 1
            return list(self.base_lrs)

    def build(lr: float) -> Any:
        module, loss, optimizer = cases.build(optimizer="SGD", lr=lr, momentum=0.9)
        return module, loss, optimizer, Nesterov(optimizer)

    with pytest.raises(Declined, match="its scheduler changes more than numbers of the optimizer"):
        cases.together(cases.fit_of("dense", build=build), RATES, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda o: (lr_scheduler.StepLR(o, 2), None)[1:1], "a learning-rate scheduler that nobody would step; return"),
        (lambda o: ("cosine",), "scheduler is of str, expected one of"),
        (lambda o: (lr_scheduler.StepLR(cases.build()[2], 2),), "scheduler is that of another optimizer"),
        (lambda o: (lr_scheduler.ReduceLROnPlateau(o, "max"),), r"ReduceLROnPlateau\(mode='max'\); it is given val_"),
    ],
)
def test_a_schedule_that_would_do_nothing_or_harm_is_refused(wrong: Any, message: str) -> None:
    def build() -> Any:
        module = cases.module("dense")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        return module, nn.CrossEntropyLoss(), optimizer, *wrong(optimizer)

    for train in (cases.taken, cases.alone):
        with pytest.raises(BadCall, match=message):
            train(cases.fit_of("dense", build=build), [{}])
