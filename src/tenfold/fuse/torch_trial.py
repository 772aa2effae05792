"""In a worker: a few steps of PyTorch models, alone and in a stack, on copies: may they be fused, and does that pay?

Nothing is fused that gives other gradients, steps, buffers or scores than the model's own loop. Two models are
compared, for a rule of vmap may be right for the first of a stack only.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tenfold.fuse.columns import Columns
from tenfold.fuse.torch_optimizers import SCALE_FREE
from tenfold.fuse.torch_plain import Parts, Single
from tenfold.fuse.torch_same import describe
from tenfold.fuse.torch_stack import Fused, Model
from tenfold.fuse.torch_step import Blocks, Data, batch, declining, line

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

TRIAL_STEPS = 3
BESIDES = 6  # times its parameters: they themselves, gradients, what optimizers remember, and what these compute with
CLOSE = 1e-3  # of the largest gradient or step, within which the two ways must agree; rounding makes about 1e-6
FACTORS = (1.0, -0.5)  # of the gradients of the trial's steps: the second shows what an optimizer remembers


class Trial:
    """A few steps of two models, on copies of them: whether they may be fused, and what that would bring."""

    def __init__(self, fit: Fit, model: Model, other: Model, sample: Columns) -> None:
        self._fit = fit
        self._models = (model, other)
        self._sample = sample
        self.nbytes = 0
        """What a model takes in training, once it was tried."""

    def obstacle(self, fused: Fused) -> str | None:
        """Why they may not be fused, in words; `fused` holds the two, and is used up."""
        expected = []
        for model in self._models:
            found = self._expected(model, fused.trained)
            if isinstance(found, str):
                return found
            expected.append(found)
        self.nbytes = expected[0].nbytes
        return self._compare(fused, expected)

    def _expected(self, model: Model, trained: Sequence[str]) -> Rehearsed | str:
        """What the model's own loop gives, or why it cannot be fused."""
        try:
            single = self._copy(model)
        except Exception as error:
            return f"it cannot be copied: {line(error)}"
        before = self._facts(single)
        with declining():
            expected = rehearse(single, Blocks(single.module).tensors(self._sample), trained)
        unused = [name for name, gradient in expected.gradients.items() if gradient is None]
        reason = f"the parameter {unused[0]} has no part in the loss" if unused else None
        return self._impure(model, single, before) or reason or expected

    def _compare(self, fused: Fused, expected: Sequence[Rehearsed]) -> str | None:
        name = type(fused.module).__name__
        try:
            both = self._found(fused, expected)
        except Exception as error:
            return f"vmap does not support {name}: {line(error)}"
        kind = type(self._models[0].built[2]).__name__
        for own, found in zip(expected, both, strict=True):
            reason = first_difference(own, found)
            noise = None if self._fit.how == "fused" else only_rounding(own, found)
            if reason is None and noise is not None and kind in SCALE_FREE:
                reason = f"the gradient of {noise} is zero but for rounding, and {kind} makes steps of that"
            if reason is not None:
                return reason
        return None

    def needed(self) -> int:
        """Bytes that a model takes in training; of one that cannot be copied, those for any batch."""
        model = self._models[0]
        try:
            single = self._copy(model)
        except Exception:
            return BESIDES * int(sum(p.nbytes for p in model.built.module.parameters()))
        trained = [name for name, parameter in single.module.named_parameters() if parameter.requires_grad]
        with declining():
            return rehearse(single, Blocks(single.module).tensors(self._sample), trained).nbytes

    def seconds_fused(self, fused: Fused) -> float:
        """A step of all of these."""
        rows = numpy.broadcast_to(numpy.arange(len(self._sample)), (len(fused), len(self._sample)))
        return _fastest(lambda: fused.train(self._sample, rows))

    def seconds_looped(self) -> float:
        """A step of one."""
        single = self._copy(self._models[0])
        blocks = Blocks(single.module)
        rows = blocks.rows(numpy.arange(len(self._sample)))
        return _fastest(lambda: single.train(blocks.tensors(self._sample), rows))

    def _copy(self, model: Model) -> Single:
        *parts, _ = model.built  # epochs are not tried, so there is nothing for a scheduler to do
        built = copy.deepcopy(parts)  # at once, so that the optimizer holds the copied parameters
        return Single(Parts(*built), self._fit.metrics, self._fit.batch_size, copy.copy(model.randomness))

    def _facts(self, single: Single) -> dict[str, Any]:
        single.module.train()
        return describe((single.module, single.loss, single.optimizer, None), None, None)

    def _impure(self, model: Model, single: Single, before: dict[str, Any]) -> str | None:
        """What the steps of a model have done besides changing its tensors."""
        drawn = model.randomness.drawn(single.randomness)
        if drawn is not None:
            kinds = [type(layer).__name__ for layer in single.module.modules()]
            return f"{next((kind for kind in kinds if 'Dropout' in kind), kinds[0])} draws from {drawn}"
        after = self._facts(single)
        changed = next((name for name in {**before, **after} if before.get(name) != after.get(name)), None)
        return f"its forward pass changes {changed}" if changed is not None else None

    def _found(self, fused: Fused, expected: Sequence[Rehearsed]) -> list[Rehearsed]:
        """The same by a stack of the two."""
        both = slice(0, 2)
        rows = numpy.stack([numpy.arange(len(self._sample))] * 2)
        data = batch(fused.blocks.tensors(self._sample), torch.from_numpy(rows).to(fused.blocks.device))
        fused.module.train()
        gradients = dict(zip(fused.trained, fused.gradients(both, data), strict=True))
        buffers = {name: fused.tensors[name].clone() for name in expected[0].buffers}
        logs = {"train": fused.logs()}
        for factor in FACTORS:
            pairs = [torch.stack([own.gradients[name] * factor for own in expected]) for name in fused.trained]
            fused.updates.step(both, [fused.tensors[name] for name in fused.trained], pairs)
        for name, own in (("test", None), ("own", rows)):
            fused.begin()
            fused.test(self._sample, own)
            logs[name] = fused.logs()
        return [
            Rehearsed(
                {name: tensor[row] for name, tensor in gradients.items()},
                {name: tensor[row] for name, tensor in buffers.items()},
                own.start,
                {name: fused.tensors[name][row] - own.start[name] for name in fused.trained},
                {when: {name: float(values[row]) for name, values in found.items()} for when, found in logs.items()},
                own.nbytes,
            )
            for row, own in enumerate(expected)
        ]


def _fastest(step: Callable[[], None]) -> float:
    """Seconds; the first call, which warms up, does not count."""
    step()
    found = []
    for _ in range(TRIAL_STEPS):
        began = time.perf_counter()
        step()
        found.append(time.perf_counter() - began)
    return min(found)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a trial has given, one way or the other."""

    gradients: dict[str, Any]
    """Of the first batch, for each trained parameter."""
    buffers: dict[str, Any]
    """After that."""
    start: dict[str, Any]
    """The trained parameters before."""
    moved: dict[str, Any]
    """How far they went in two steps with the same gradients."""
    logs: dict[str, dict[str, float]]
    """Loss and metrics."""
    nbytes: int
    """What a model takes in training: its tensors, the optimizer's, and what a step keeps for the way back."""


def rehearse(single: Single, data: Data, trained: Sequence[str]) -> Rehearsed:
    """A trial by PyTorch's own backward pass and optimizer; the model is used up."""
    parameters = dict(single.module.named_parameters())
    start = {name: parameters[name].detach().clone() for name in trained}
    kept: list[int] = []
    with single.randomness, torch.autograd.graph.saved_tensors_hooks(functools.partial(_count, kept), _same):
        single.backward(data)
    gradients = {name: copy.deepcopy(parameters[name].grad) for name in trained}
    buffers = {name: buffer.clone() for name, buffer in single.module.named_buffers()}
    for factor in FACTORS:
        for name, gradient in gradients.items():
            parameters[name].grad = None if gradient is None else gradient * factor
        single.optimizer.step()
    moved = {name: parameters[name].detach() - start[name] for name in trained}
    logs = single.logs()
    single.begin()
    single.test(data, None)
    nbytes = 2 * sum(kept) + BESIDES * sum(p.nbytes for p in parameters.values())
    every = {"train": logs, "test": single.logs(), "own": single.logs()}  # scored in two ways by a stack
    return Rehearsed(gradients, buffers, start, moved, every, nbytes)


def _count(kept: list[int], tensor: Any) -> Any:
    kept.append(int(tensor.nbytes))
    return tensor


def _same(tensor: Any) -> Any:
    return tensor


def first_difference(expected: Rehearsed, found: Rehearsed) -> str | None:
    """Where two outcomes are not the same but for rounding, in words."""
    largest = max(map(_largest, expected.gradients.values()))
    for name, start in expected.start.items():
        # Rounding is relative to the largest numbers about, not to a gradient or a step that is next to nothing.
        if not _close(found.gradients[name], expected.gradients[name], 1e-5 * largest):
            return f"a fused step gives another gradient of {name}"
        floor = 1e-5 * _largest(expected.moved[name]) + 1e-6 * _largest(start)
        if not _close(found.moved[name], expected.moved[name], floor):
            return f"a fused step of the optimizer moves {name} elsewhere"
    for name, buffer in expected.buffers.items():
        if not _close(found.buffers[name], buffer, 1e-5 * _largest(buffer)):
            return f"a fused step gives another {name}"
    return next((name for when in expected.logs for name in _other_logs(expected.logs[when], found.logs[when])), None)


def only_rounding(expected: Rehearsed, found: Rehearsed) -> str | None:
    """The first parameter whose gradient is zero but for rounding, which each way of training rounds differently."""
    largest = max(map(_largest, expected.gradients.values()))
    for name, gradient in expected.gradients.items():
        size = _largest(gradient)
        if 0 < size < 1e-5 * largest and not _close(found.gradients[name], gradient, 0.05 * size):
            return name
    return None


def _other_logs(expected: dict[str, float], found: dict[str, float]) -> list[str]:
    return [
        f"a fused step gives another {name}: {found[name]:g} instead of {value:g}"
        for name, value in expected.items()
        if not numpy.isclose(found[name], value, rtol=CLOSE, atol=1e-6, equal_nan=True)
    ]


def _largest(tensor: Any) -> float:
    """The largest number in it that is one."""
    return float(tensor.double().abs().nan_to_num(0.0, 0.0).max()) if tensor.numel() else 0.0


def _close(one: Any, other: Any, floor: float) -> bool:
    return bool(torch.allclose(one.double(), other.double(), rtol=CLOSE, atol=floor, equal_nan=True))
