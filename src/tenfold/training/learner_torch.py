"""A module of PyTorch, with its own loss and optimizer, as one copy among several.

The vector is memory that gradients live in: `backward` adds to it where it is, and no gradient is copied. It is an
array, or a tensor on the module's own device, of which only the sums of loss and metrics are copied from there.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import Weights
from tenfold.fuse.torch_plain import unpacked
from tenfold.fuse.torch_step import Blocks, Objective, Randomness, arguments, as_array, batch, computing, in_place
from tenfold.training.adding import Vector
from tenfold.training.torch_losses import says_sum, sums_rows

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

COUNTERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class TorchLearner:
    """One copy of a module."""

    takes_devices = False

    def __init__(self, fit: Fit, member: Member, built: Any, precision: str | None = None) -> None:
        self._module, self._loss, self.optimizer, self._schedule = unpacked(built)
        self._objective = Objective(self._loss, fit.metrics)
        for data in (fit.training, fit.validation_columns):
            self._objective.check(data)
        self._blocks = Blocks(self._module)
        self.device = self._blocks.device
        self._precision = precision
        self._randomness = Randomness()
        self._index = member.index
        if self._index:  # dropout leaves out others in each worker
            self._randomness.divert(self._index)
        self._batch_size = fit.batch_size
        self._sample = Reading(fit, [member], alone=True).sample
        self._sums_rows = says_sum(self._loss, self._sample)
        self._trained = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        buffers = list(self._module.buffers())  # what is learned without a gradient: batch norm's averages, its counter
        self._averages = [buffer for buffer in buffers if buffer.is_floating_point()]
        self._counters = [buffer for buffer in buffers if buffer.dtype in COUNTERS]
        self._sums = numpy.zeros(len(self._objective.names) + 1)  # and how many rows
        self.gradient_size = sum(parameter.numel() for parameter in self._trained)
        self.weights_size = self.gradient_size + sum(buffer.numel() for buffer in self._averages)
        self.sums_size = len(self._sums)
        self.size = self.weights_size + sum(buffer.numel() for buffer in self._counters) + self.sums_size
        self._vector: Any = None  # where gradients are now
        self._total = numpy.zeros(self.size, numpy.float32)

    def check_shares(self) -> None:
        self._sums_rows = sums_rows(self._module, self._loss, self._sample, self._blocks)

    # -- training -------------------------------------------------------------------------------------------------

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: Vector) -> None:
        into[:] = 0
        if not len(rows):
            return
        vector = in_place(into)
        self._use(vector)
        before = [buffer.clone() for buffer in self._averages]
        counters = [buffer.clone() for buffer in self._counters]
        self._module.train()
        with self._randomness:
            data = batch(self._blocks.tensors(block), self._blocks.rows(rows))
            loss, scores = self._forward(data)
            (loss if self._sums_rows else loss * share).backward()
        with torch.no_grad():
            if self._apart_from(vector):
                self._collect(vector)
            place = self.gradient_size
            for buffer, old in zip(self._averages, before, strict=True):
                vector[place : place + buffer.numel()] = buffer.reshape(-1) * share
                buffer.copy_(old)
                place += buffer.numel()
            for buffer, old in zip(self._counters, counters, strict=True):
                vector[place : place + buffer.numel()] = (buffer - old).reshape(-1) * share
                buffer.copy_(old)
                place += buffer.numel()
            for number, value in enumerate(self._added(loss.detach(), scores, len(rows), share)):
                vector[place + number] = value

    def apply(self, total: Vector) -> float:
        if isinstance(total, numpy.ndarray):  # an optimizer may change gradients, and the others read this sum
            numpy.copyto(self._total, total)
            total = self._total
        vector = in_place(total)
        self._use(vector)
        with torch.no_grad():
            if self._apart_from(vector):
                self._spread(vector)
            place = self.gradient_size
            for buffer in self._averages:
                buffer.copy_(vector[place : place + buffer.numel()].view_as(buffer))
                place += buffer.numel()
            for buffer in self._counters:
                buffer += vector[place : place + buffer.numel()].view_as(buffer).round().to(buffer)
                place += buffer.numel()
        self.optimizer.step()
        sums = vector[place:].cpu().numpy()
        self._sums += sums
        return float(sums[0] / sums[-1])

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        data, found = self._blocks.tensors(block), []
        places = self._blocks.rows(numpy.concatenate(batches)).split([len(rows) for rows in batches])
        self._module.train()
        with self._randomness:
            for rows in places:
                self.optimizer.zero_grad()
                loss, scores = self._forward(batch(data, rows))
                loss.backward()
                self.optimizer.step()
                found += [loss.detach(), *scores]
        self._vector = None
        return self._noted(found, batches)

    def _noted(self, found: list[Any], batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        """Add loss and metrics of these batches: read when all are made, so that no device waits for Python."""
        values = numpy.array([float(value) for value in found]).reshape(len(batches), -1)
        counts = numpy.array([len(rows) for rows in batches])
        self._sums += [*counts @ values, counts.sum()]
        return values[:, 0].tolist()  # type: ignore[no-any-return]

    def score(self, block: Columns, rows: numpy.ndarray | None, into: Vector) -> None:
        everything = numpy.arange(len(block), dtype=numpy.int32) if rows is None else rows
        self._module.eval()
        with self._randomness, torch.no_grad():
            loss, scores = self._forward(batch(self._blocks.tensors(block), self._blocks.rows(everything)))
        share = len(everything) / self._batch_size  # of the batches that one process would score at a time
        for place, value in enumerate(self._added(loss, scores, len(everything), share), -len(self._sums)):
            into[place] += float(value)

    def _added(self, loss: Any, scores: Sequence[Any], count: int, share: float) -> list[Any]:
        """What so many rows add to the sums: a batch's loss counts by all of its rows, also where it is a sum."""
        by = count / share if self._sums_rows else count
        return [_number(loss) * by, *(_number(value) * count for value in scores), count]

    def _forward(self, data: Any) -> tuple[Any, list[Any]]:
        x, y, weight = data
        positional, named = arguments(x)
        with computing(self._precision, self._blocks.device):
            outputs = self._module(*positional, **named)
            return self._objective.loss(outputs, y, weight), self._objective.scores(outputs, y)

    # -- gradients in the vector ----------------------------------------------------------------------------------

    def _apart_from(self, vector: Any) -> bool:
        """Whether gradients cannot lie in the vector, which is of another type, or elsewhere."""
        return any(p.dtype != vector.dtype or p.device != vector.device for p in self._trained)

    def _use(self, vector: Any) -> None:
        """Let the gradients of the module be parts of this vector."""
        if self._apart_from(vector):
            self.optimizer.zero_grad()
            return
        if self._vector is not None and self._vector.data_ptr() == vector.data_ptr():
            return
        place = 0
        for parameter in self._trained:
            parameter.grad = vector[place : place + parameter.numel()].view_as(parameter)
            place += parameter.numel()
        self._vector = vector

    def _collect(self, vector: Any) -> None:
        place = 0
        for parameter in self._trained:
            if parameter.grad is not None:
                vector[place : place + parameter.numel()] = parameter.grad.reshape(-1)
            place += parameter.numel()

    def _spread(self, vector: Any) -> None:
        place = 0
        for parameter in self._trained:
            parameter.grad = vector[place : place + parameter.numel()].view_as(parameter).to(parameter)
            place += parameter.numel()

    # -- what it has learned --------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._sums[:] = 0

    def logs(self, total: Vector | None = None) -> dict[str, float]:
        sums = self._sums if total is None else in_place(total)[-len(self._sums) :].cpu().numpy()
        return {name: float(value / sums[-1]) for name, value in zip(self._objective.names, sums, strict=False)}

    def close(self, logs: dict[str, float]) -> None:
        if self._schedule is not None:
            self._schedule.step(logs)

    def state(self) -> list[Any]:
        tensors = (self._module.state_dict(), dict(self._module.named_buffers()), self.optimizer.state_dict())
        schedule = () if self._schedule is None else (self._schedule.state,)
        return [pickle.dumps((*tensors, self._randomness, *schedule), protocol=5), self._sums.copy(), self._index]

    def put(self, state: list[Any]) -> None:
        module, buffers, optimizer, self._randomness, *schedule = pickle.loads(state[0])
        self._module.load_state_dict(module)
        for name, buffer in self._module.named_buffers():
            buffer.copy_(buffers[name])
        self.optimizer.load_state_dict(optimizer)
        if self._schedule is not None:
            self._schedule.put(*schedule)
        self._sums[:] = state[1]
        if state[2] != self._index:  # another worker's
            self._randomness.divert(self._index)

    def weights(self) -> Weights:
        state = self._module.state_dict()
        return {name: as_array(value) for name, value in state.items() if isinstance(value, torch.Tensor)}

    # -- weights in one run ---------------------------------------------------------------------------------------

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        before = self._sums.copy()
        self.read_weights(weights)
        self.steps(block, [rows])
        self.write_weights(into)
        into[self.weights_size :] = self._sums - before
        self._sums[:] = before

    def write_weights(self, into: numpy.ndarray) -> None:
        with torch.no_grad():
            vector, place = torch.from_numpy(into), 0
            for tensor in (*self._trained, *self._averages):
                vector[place : place + tensor.numel()] = tensor.reshape(-1)
                place += tensor.numel()

    def read_weights(self, run: numpy.ndarray) -> None:
        with torch.no_grad():
            vector, place = torch.from_numpy(run), 0
            for tensor in (*self._trained, *self._averages):
                tensor.copy_(vector[place : place + tensor.numel()].view_as(tensor))
                place += tensor.numel()


def _number(value: Any) -> Any:
    """Of this machine; or a tensor where it is, so that no device is waited for."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return value.detach().float()
    return float(value)
