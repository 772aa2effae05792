"""In a worker: PyTorch's optimizers for many models at once, each with learning rate, momentum and so on of its own.

A stacked parameter has a row for each model; so has each number, as a column that is spread over the row. The formulas
are those of `torch.optim`, with products taken in another order at most. What is not written down here is read as a
reason not to fuse. Used by `torch`; nothing here may let one row see another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
import torch

Numbers = dict[str, numpy.ndarray]
"""Name -> one number a model, as float64."""
Tensors = list[Any]
"""A tensor for each parameter, with a row for each model."""

KINDS = ("SGD", "Adam", "AdamW", "RMSprop", "NAdam")
SCALE_FREE = ("Adam", "AdamW", "RMSprop", "NAdam")
"""Whose steps are as long for a gradient of nothing but rounding as for a large one."""
IRRELEVANT = ("params", "foreach", "fused", "capturable", "param_names")
"""Settings that choose how a step is computed, and not what."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one model's optimizer."""

    kind: str
    """The class, one of `KINDS`."""
    flags: tuple[str, ...]
    """The switches that are on: models that differ in them are different programs."""
    numbers: dict[str, float]
    """The rest, which may differ."""


def read(optimizer: Any, *, scheduled: bool = False) -> Settings | str:
    """What it does, or why it has no stacked form, in words; `scheduled` where a scheduler sets its numbers."""
    name = type(optimizer).__name__
    if name not in KINDS or type(optimizer) is not getattr(torch.optim, name):
        return f"the optimizer {name} has no fused form; those that have are {', '.join(KINDS)}"
    names = [key for key in optimizer.defaults if key not in IRRELEVANT]  # schedulers leave notes beside these
    groups = [{key: group[key] for key in names} for group in optimizer.param_groups]
    if any(group != groups[0] for group in groups):
        return f"the optimizer {name} has several groups of parameters with different settings"
    obstacles = {
        f"{name}(maximize=True) has no fused form": groups[0].pop("maximize", False),
        f"{name}(differentiable=True) has no fused form": groups[0].pop("differentiable", False),
        "the optimizer has taken steps already": bool(optimizer.state),
        "the optimizer has hooks": bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks),
        "the optimizer has a step of its own": _own_step(optimizer, scheduled=scheduled),
    }
    found = next((reason for reason, holds in obstacles.items() if holds), None)
    return found or _settings(name, groups[0])


def _own_step(optimizer: Any, *, scheduled: bool) -> bool:
    """Whether somebody has changed how it steps; a scheduler puts a function there that counts the class's own."""
    step = vars(optimizer).get("step")
    if step is None or not scheduled:
        return step is not None
    return getattr(step, "__wrapped__", None) is not type(optimizer).step


def _settings(name: str, group: dict[str, Any]) -> Settings:
    betas = group.pop("betas", ())
    numbers = {key: float(value) for key, value in group.items() if not isinstance(value, bool)}
    flags = {key for key, value in group.items() if value is True}
    if numbers.get("momentum"):
        flags.add("momentum")  # with it there is one more thing to remember, so it is another program
    return Settings(
        name, tuple(sorted(flags)), numbers | {f"beta{place}": float(beta) for place, beta in enumerate(betas, 1)}
    )


class Updates:
    """The optimizers of a stack: their numbers, and what they remember from step to step."""

    def __init__(self, settings: Sequence[Settings], parameters: Tensors) -> None:
        first = settings[0]
        self._flags = first.flags
        self._rule = {"SGD": _sgd, "RMSprop": _rmsprop, "NAdam": _nadam}.get(first.kind, _adam)
        self.use(settings)
        self._steps = numpy.zeros(len(settings), numpy.int64)
        self._products = numpy.ones(len(settings))
        self._slots = [[torch.zeros_like(p) for p in parameters] for _ in range(self._slots_needed(first.kind))]

    def _slots_needed(self, kind: str) -> int:
        extra = sum(flag in self._flags for flag in ("amsgrad", "centered", "momentum"))
        return {"SGD": 0, "RMSprop": 1}.get(kind, 2) + extra

    def use(self, settings: Sequence[Settings]) -> None:
        """Step with these numbers from now on."""
        self._numbers = {name: numpy.array([one.numbers[name] for one in settings]) for name in settings[0].numbers}

    def step(self, cut: slice, parameters: Tensors, gradients: Tensors) -> None:
        """Take one step with the models of a cut, in place; the gradients are used up."""
        self._steps[cut] += 1
        numbers = {name: values[cut] for name, values in self._numbers.items()}
        slots = [[tensor[cut] for tensor in slot] for slot in self._slots]
        spread = _Spread(parameters)
        with torch.no_grad():
            now = Step(
                parameters, gradients, slots, numbers, self._steps[cut], self._products[cut], self._flags, spread
            )
            self._rule(now)

    @property
    def state(self) -> list[Any]:
        """Everything that goes on to the next step, a row for each model."""
        flat = [tensor for slot in self._slots for tensor in slot]
        return [*flat, torch.from_numpy(self._steps), torch.from_numpy(self._products)]

    def put(self, state: Sequence[Any]) -> None:
        """Go on from a `state`."""
        *flat, steps, products = state
        size = len(flat) // max(1, len(self._slots))
        self._slots = [list(flat[place * size : (place + 1) * size]) for place in range(len(self._slots))]
        self._steps, self._products = steps.cpu().numpy().copy(), products.cpu().numpy().copy()

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these models only."""
        places = torch.as_tensor(rows)
        self._numbers = {name: values[list(rows)] for name, values in self._numbers.items()}
        self.put([tensor[places.to(tensor.device)] for tensor in self.state])


class _Spread:
    """Numbers of models as columns that fit the parameters."""

    def __init__(self, parameters: Tensors) -> None:
        self._parameters = parameters

    def __call__(self, values: numpy.ndarray) -> Tensors:
        columns: dict[Any, Any] = {}
        for p in self._parameters:
            key = (p.ndim, p.dtype)
            if key not in columns:
                columns[key] = torch.as_tensor(values, dtype=p.dtype, device=p.device).view(-1, *[1] * (p.ndim - 1))
        return [columns[p.ndim, p.dtype] for p in self._parameters]


@dataclass(frozen=True, slots=True)
class Step:
    """What a rule needs for one step."""

    parameters: Tensors
    """Changed in place."""
    gradients: Tensors
    """Used up."""
    slots: list[Tensors]
    """Running means and the like, changed in place."""
    numbers: Numbers
    """The settings."""
    count: numpy.ndarray
    """Of steps, with this one."""
    products: numpy.ndarray
    """Of NAdam's momenta so far, changed in place."""
    flags: tuple[str, ...]
    """The switches that are on."""
    spread: Callable[[numpy.ndarray], Tensors]
    """Makes columns of numbers."""

    def runs(self) -> list[slice]:
        """Neighbours whose numbers and counts are the same."""
        every = numpy.stack([self.count, *self.numbers.values()], axis=1)
        ends = [0, *(numpy.flatnonzero((every[1:] != every[:-1]).any(axis=1)) + 1).tolist(), len(every)]
        return [slice(start, stop) for start, stop in pairwise(ends)]

    def decay(self, *, decoupled: bool) -> None:
        """Weight decay: of the weights themselves, or as a part of the gradient."""
        rate = self.numbers["weight_decay"]
        if not rate.any():
            return
        if decoupled:
            torch._foreach_mul_(self.parameters, self.spread(1 - self.numbers["lr"] * rate))
        else:
            torch._foreach_addcmul_(self.gradients, self.parameters, self.spread(rate))

    def approach(self, slot: Tensors, target: Tensors, kept: numpy.ndarray) -> None:
        """A running mean: kept * slot + (1 - kept) * target."""
        torch._foreach_lerp_(slot, target, self.spread(1 - kept))

    def move(self, direction: Tensors, factors: numpy.ndarray) -> None:
        torch._foreach_addcmul_(self.parameters, direction, self.spread(factors))


def _sgd(step: Step) -> None:
    step.decay(decoupled=False)
    momentum, dampening = step.numbers["momentum"], step.numbers["dampening"]
    direction = step.gradients
    if step.slots:
        taken = numpy.where(step.count == 1, 1.0, 1.0 - dampening)  # the first gradient is taken whole
        (buffer,) = step.slots
        torch._foreach_mul_(buffer, step.spread(momentum))
        torch._foreach_addcmul_(buffer, direction, step.spread(taken))
        if "nesterov" in step.flags:
            torch._foreach_addcmul_(direction, buffer, step.spread(momentum))
        else:
            direction = buffer
    step.move(direction, -step.numbers["lr"])


def _adam(step: Step) -> None:
    held = [tensor for tensors in (step.parameters, *step.slots) for tensor in tensors]
    if all(t.device.type == "cpu" and t.dtype == torch.float32 and t.is_contiguous() for t in held):
        for cut in step.runs():
            _adam_in_one_pass(step, cut)
        return
    step.decay(decoupled="decoupled_weight_decay" in step.flags)
    beta1, beta2 = step.numbers["beta1"], step.numbers["beta2"]
    mean, square, *largest = step.slots
    step.approach(mean, step.gradients, beta1)
    step.approach(square, torch._foreach_mul(step.gradients, step.gradients), beta2)
    for most in largest:
        torch._foreach_maximum_(most, square)
    # (sqrt(v) / c + eps) is (sqrt(v) + c * eps) / c: c goes to the factor, one pass over the weights less.
    correction = numpy.sqrt(1 - beta2**step.count)
    below = torch._foreach_sqrt(largest[0] if largest else square)
    torch._foreach_add_(below, step.spread(step.numbers["eps"] * correction))
    factors = -step.numbers["lr"] * correction / (1 - beta1**step.count)
    step.move(torch._foreach_div(mean, below), factors)


def _adam_in_one_pass(step: Step, cut: slice) -> None:
    """Neighbours with the same numbers, by the kernel that PyTorch has for one model: half the time on a CPU."""
    decoupled = "decoupled_weight_decay" in step.flags
    numbers = {name: float(values[cut.start]) for name, values in step.numbers.items()}
    parameters, gradients, mean, square, *largest = (
        [tensor[cut].contiguous() for tensor in tensors] for tensors in (step.parameters, step.gradients, *step.slots)
    )
    count = torch.tensor(float(step.count[cut.start]))
    (torch._fused_adamw_ if decoupled else torch._fused_adam_)(
        parameters,
        gradients,
        mean,
        square,
        largest[0] if largest else [],
        [count] * len(parameters),
        amsgrad=bool(largest),
        maximize=False,
        **numbers,
    )


def _rmsprop(step: Step) -> None:
    step.decay(decoupled=False)
    alpha, momentum = step.numbers["alpha"], step.numbers["momentum"]
    square, *others = step.slots
    step.approach(square, torch._foreach_mul(step.gradients, step.gradients), alpha)
    below = square
    if "centered" in step.flags:
        mean = others.pop(0)
        step.approach(mean, step.gradients, alpha)
        below = torch._foreach_addcmul(square, mean, mean, value=-1)
    below = torch._foreach_sqrt(below)
    torch._foreach_add_(below, step.spread(step.numbers["eps"]))
    direction = torch._foreach_div(step.gradients, below)
    for buffer in others:
        torch._foreach_mul_(buffer, step.spread(momentum))
        torch._foreach_add_(buffer, direction)
        direction = buffer
    step.move(direction, -step.numbers["lr"])


def _nadam(step: Step) -> None:
    step.decay(decoupled="decoupled_weight_decay" in step.flags)
    beta1, beta2, rate = step.numbers["beta1"], step.numbers["beta2"], step.numbers["lr"]
    now, following = (
        beta1 * (1.0 - 0.5 * 0.96 ** (count * step.numbers["momentum_decay"])) for count in (step.count, step.count + 1)
    )
    step.products[:] *= now
    mean, square = step.slots
    step.approach(mean, step.gradients, beta1)
    step.approach(square, torch._foreach_mul(step.gradients, step.gradients), beta2)
    correction = numpy.sqrt(1 - beta2**step.count)  # moved to the factors, as in `_adam`
    below = torch._foreach_sqrt(square)
    torch._foreach_add_(below, step.spread(step.numbers["eps"] * correction))
    step.move(torch._foreach_div(step.gradients, below), -rate * (1 - now) / (1 - step.products) * correction)
    step.move(torch._foreach_div(mean, below), -rate * following / (1 - step.products * following) * correction)
