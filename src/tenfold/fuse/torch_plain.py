"""PyTorch models one at a time, with their own optimizers: zero_grad, backward, step.

`train` is one model by itself, called by `plain`; `Looped` is a `Stack` of those that have no stacked form, used by
`torch`. Both are the same `Single`, so that a model gives the same numbers wherever it is trained. It is put in
training mode as a whole for training, and in evaluation mode for scoring; layers that `build` froze with eval() are
not an exception, as in everybody's loop.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import torch

from tenfold.errors import BadCall
from tenfold.fuse.building import Member
from tenfold.fuse.checkpoint import Saved
from tenfold.fuse.columns import Columns
from tenfold.fuse.outputs import Outputs, each, joined
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import Patience
from tenfold.fuse.torch_schedule import Schedule, faults
from tenfold.fuse.torch_step import (
    TEST_ROWS,
    Blocks,
    Data,
    Objective,
    Randomness,
    arguments,
    as_array,
    batch,
    declining,
    length,
    part,
)
from tenfold.work.leg import Why

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

Weights = dict[str, numpy.ndarray]


class Parts(NamedTuple):
    """What `build` returned."""

    module: Any
    loss: Any
    optimizer: Any
    schedule: Schedule | None = None
    """Of the optimizer's numbers, where `build` returned a scheduler."""


def unpacked(built: Any) -> Parts:
    """What `build` returned, looked at."""
    module, loss, optimizer, scheduler = (*built, None)[:4]
    found = []
    if not isinstance(module, torch.nn.Module):
        found.append(f"module is of {type(module).__name__}, expected a torch.nn.Module")
    if not callable(loss):
        found.append(f"loss is {loss!r}, expected a function of (outputs, targets)")
    if not isinstance(optimizer, torch.optim.Optimizer):
        found.append(f"optimizer is of {type(optimizer).__name__}, expected one of torch.optim")
    else:
        found += faults(scheduler, optimizer)
        if isinstance(optimizer, torch.optim.LBFGS):
            found.append("optimizer is LBFGS, whose step wants a closure; expected one that steps with a gradient")
    if found:
        fourth = "" if scheduler is None else ", scheduler"
        raise BadCall(f"build returned (module, loss, optimizer{fourth}) where {'; '.join(found)}")
    return Parts(module, loss, optimizer, None if scheduler is None else Schedule(scheduler, optimizer))


def train(fit: Fit, member: Member, built: Any, how: str) -> FitResult:
    """One model, or one leg of its training."""
    refuse_callbacks(fit)
    single = Single(unpacked(built), fit.metrics, fit.batch_size, Randomness())
    reading = Reading(fit, [member], alone=True)
    single.check(fit.training, fit.validation_columns)
    watch = Patience(fit.stopping) if fit.stopping is not None else None
    blocks = Blocks(single.module)
    history: dict[str, list[float]] = {}
    best: Weights | None = None
    begin, until = 0, member.until(fit.epochs)
    if member.leg is not None and member.leg.state is not None:
        saved = member.leg.state
        begin, history, watch = saved.begun()
        state, best = saved.arrays[0][0]
        single.put(state)
    ended: Why = "finished" if until == fit.epochs else "paused"
    for epoch in range(begin, until):
        logs = _one_epoch(single, reading, member, blocks, epoch)
        for name, value in logs.items():
            history.setdefault(name, []).append(value)
        if watch is not None and watch.look(epoch, logs) and watch.rule.restore_best:
            best = single.weights()
        halted = member.tell(epoch, logs)
        if watch is not None and watch.stopped:
            ended = "finished"
            break
        if halted is not None and epoch + 1 < fit.epochs:
            ended = halted
            break
    left = _saved(single, best, history, watch, member) if ended == "paused" else None
    weights = single.weights() if best is None else best
    best_epoch = None if watch is None or best is None else watch.best_epoch
    outputs = _outputs(fit, single, reading, member, best, blocks)
    return FitResult(member.params, history, weights, how, best_epoch, ended, left, outputs=outputs)


def refuse_callbacks(fit: Fit) -> None:
    """Nobody would call them."""
    if fit.callbacks:
        raise BadCall(
            f"callbacks: {type(fit.callbacks[0]).__name__} is for Keras models, and build returned a PyTorch module; "
            "tenfold.EarlyStopping is for both"
        )


def _saved(
    single: Single, best: Weights | None, history: dict[str, list[float]], watch: Patience | None, member: Member
) -> Saved:
    state = numpy.empty(1, object)
    state[0] = (single.state(), best)
    return Saved(len(history["loss"]), [state], history, watch, 1, member.params, "torch")


def _outputs(
    fit: Fit, single: Single, reading: Reading, member: Member, best: Weights | None, blocks: Blocks
) -> Outputs:
    found = reading.outputs([member]) if fit.outputs else ()
    parts = [single.outputs(blocks.tensors(b), None if r is None else blocks.rows(r[0]), best) for b, r in found]
    return joined(parts) if parts else None


def _one_epoch(single: Single, reading: Reading, member: Member, blocks: Blocks, epoch: int) -> dict[str, float]:
    single.begin()
    for block, order in reading.training([member], epoch):
        single.train(blocks.tensors(block), blocks.rows(order[0]))
    logs = single.logs()
    single.begin()
    for block, rows in reading.validation([member]):
        single.test(blocks.tensors(block), None if rows is None else blocks.rows(rows[0]))
    logs |= {f"val_{name}": value for name, value in single.logs().items()}
    single.close(logs)
    return logs


class Single:
    """One model in training, with random numbers of its own."""

    def __init__(self, built: Parts, metrics: Sequence[Any], size: int, randomness: Randomness) -> None:
        self.module, self.loss, self.optimizer, self._schedule = built
        self.objective = Objective(self.loss, metrics)
        self.randomness = randomness
        self._batch_size = size
        self.begin()

    def check(self, *data: Columns | None) -> None:
        """Refuse data that the loss cannot take."""
        for one in data:
            self.objective.check(one)

    def begin(self) -> None:
        self._sums = [0.0] * len(self.objective.names)
        self._rows = 0

    def train(self, data: Data, order: Any) -> None:
        """One pass over these rows, in this order."""
        self.module.train()
        with self.randomness:
            for places in order.split(self._batch_size):
                self.step(batch(data, places))

    def step(self, data: Data) -> None:
        """One step on one batch."""
        self.backward(data)
        self.optimizer.step()

    def backward(self, data: Data) -> None:
        """The gradients of one batch."""
        self.optimizer.zero_grad()
        loss, scores = self._forward(data)
        loss.backward()
        self._note(data, [loss.detach(), *scores])

    def test(self, data: Data, rows: Any) -> None:
        """Score the data, or these rows of it."""
        self.module.eval()
        count = length(data) if rows is None else len(rows)
        size = self.objective.test_rows(self._batch_size)
        with self.randomness, torch.no_grad():
            for start in range(0, count, size):
                stop = min(start + size, count)
                some = part(data, start, stop) if rows is None else batch(data, rows[start:stop])
                loss, scores = self._forward(some)
                self._note(some, [loss, *scores])

    def outputs(self, data: Data, rows: Any, weights: Weights | None) -> Outputs:
        """What it gives for the data, or these rows of it; with these weights, which it then has for good."""
        if weights is not None:
            self.module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.module.eval()
        count = length(data) if rows is None else len(rows)
        parts = []
        with self.randomness, torch.no_grad():
            for start in range(0, count, TEST_ROWS):
                stop = min(start + TEST_ROWS, count)
                x = part(data[0], start, stop) if rows is None else batch(data[0], rows[start:stop])
                positional, named = arguments(x)
                parts.append(each(as_array, self.module(*positional, **named)))
        return joined(parts)

    def logs(self) -> dict[str, float]:
        """Loss and metrics since `begin`, each row counting alike; nothing where there were no rows."""
        if not self._rows:
            return {}
        return {name: value / self._rows for name, value in zip(self.objective.names, self._sums, strict=True)}

    def close(self, logs: dict[str, float]) -> None:
        """An epoch is over, with these logs."""
        if self._schedule is not None:
            self._schedule.step(logs)

    def weights(self) -> Weights:
        """As `state_dict` orders them."""
        state = self.module.state_dict()
        return {name: as_array(value) for name, value in state.items() if isinstance(value, torch.Tensor)}

    def state(self) -> bytes:
        """Everything that training goes on from."""
        tensors = (self.module.state_dict(), dict(self.module.named_buffers()))  # a state_dict may leave buffers out
        schedule = () if self._schedule is None else (self._schedule.state,)
        return pickle.dumps((*tensors, self.optimizer.state_dict(), self.randomness, *schedule), protocol=5)

    def put(self, state: bytes) -> None:
        """Go on from a `state`."""
        module, buffers, optimizer, self.randomness, *schedule = pickle.loads(state)
        self.module.load_state_dict(module)
        for name, buffer in self.module.named_buffers():
            buffer.copy_(buffers[name])
        # Its settings are those that it was built with: a study may go on with others.
        self.optimizer.load_state_dict({**optimizer, "param_groups": self.optimizer.state_dict()["param_groups"]})
        if self._schedule is not None:
            self._schedule.put(*schedule)

    def _forward(self, data: Data) -> tuple[Any, list[Any]]:
        x, y, weight = data
        positional, named = arguments(x)
        outputs = self.module(*positional, **named)
        return self.objective.loss(outputs, y, weight), self.objective.scores(outputs, y)

    def _note(self, data: Data, values: Sequence[Any]) -> None:
        rows = length(data)
        self._rows += rows
        self._sums = [total + rows * float(value) for total, value in zip(self._sums, values, strict=True)]


class Looped:
    """A `Stack` of models that are trained one after the other, each on a block at a time."""

    def __init__(self, models: Sequence[Single]) -> None:
        self._models = list(models)
        self._best: list[Weights | None] = [None] * len(models)
        self._blocks = Blocks(models[0].module)

    def __len__(self) -> int:
        return len(self._models)

    def begin(self) -> None:
        for model in self._models:
            model.begin()

    def train(self, block: Columns, order: numpy.ndarray) -> None:
        data, rows = self._blocks.tensors(block), self._blocks.rows(order)
        with declining():
            for model, own in zip(self._models, rows, strict=True):
                model.train(data, own)

    def test(self, block: Columns, rows: numpy.ndarray | None) -> None:
        data = self._blocks.tensors(block)
        every = [None] * len(self) if rows is None else self._blocks.rows(rows)
        with declining():
            for model, own in zip(self._models, every, strict=True):
                model.test(data, own)

    def logs(self) -> dict[str, numpy.ndarray]:
        found = [model.logs() for model in self._models]
        return {name: numpy.array([logs[name] for logs in found]) for name in found[0]}

    def close(self, logs: dict[str, numpy.ndarray]) -> None:
        for row, model in enumerate(self._models):
            model.close({name: float(values[row]) for name, values in logs.items()})

    def remember(self, better: Sequence[int]) -> None:
        for row in better:
            self._best[row] = self._models[row].weights()

    def keep(self, rows: Sequence[int]) -> None:
        self._models = [self._models[row] for row in rows]
        self._best = [self._best[row] for row in rows]

    def weights(self, row: int, *, best: bool) -> Weights:
        remembered = self._best[row] if best else None
        return copy.copy(remembered) if remembered is not None else self._models[row].weights()

    def outputs(self, block: Columns, rows: numpy.ndarray | None, done: Sequence[int], *, best: bool) -> list[Outputs]:
        data, models = self._blocks.tensors(block), self._models
        own = [None] * len(self) if rows is None else self._blocks.rows(rows)
        with declining():
            return [models[row].outputs(data, own[row], self._best[row] if best else None) for row in done]

    def snapshot(self) -> list[numpy.ndarray]:
        """One array of objects: what optimizers remember has no fixed shape."""
        found = numpy.empty((len(self), 1), object)
        for row, model in enumerate(self._models):
            found[row, 0] = (model.state(), self._best[row])
        return [found]

    def restore(self, arrays: Sequence[numpy.ndarray]) -> None:
        (found,) = arrays
        for row, model in enumerate(self._models):
            state, self._best[row] = found[row, 0]
            model.put(state)
