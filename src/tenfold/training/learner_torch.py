"""A module of PyTorch, with its own loss and optimizer, as one copy among several.

The vector is memory that gradients live in: `backward` adds to it where it is, and no gradient is copied. It is an
array, or a tensor on the module's own device, of which only the sums of loss and metrics are copied from there.
"""

from __future__ import annotations

import itertools
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
from tenfold.training import torch_checks
from tenfold.training.adding import Vector
from tenfold.training.torch_losses import counted, says_sum, sums_rows

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

COUNTERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class TorchLearner:
    """One copy of a module."""

    takes_devices = False

    def __init__(self, fit: Fit, member: Member, built: Any, precision: str | None = None) -> None:
        self._module, self._loss, self.optimizer, self._schedule = unpacked(built)
        torch_checks.check(fit, self._module)
        self._whole = torch_checks.learning(self._module, self._loss, self.optimizer)
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
        self._counted = counted(self._loss, self._sample, (fit.training, fit.validation_columns))
        self._trained = [parameter for parameter in self._whole.parameters() if parameter.requires_grad]
        self._places = _places(self._trained)
        self._touched = numpy.zeros(len(self._trained), numpy.float32)  # those that have had a gradient
        self._watches: list[Any] = []
        self._idle: list[int] | None = None  # which of them had none in the first step, in any worker
        buffers = list(self._whole.buffers())  # what is learned without a gradient: batch norm's averages, its counter
        self._averages = [buffer for buffer in buffers if buffer.is_floating_point()]
        self._growing = [*self._averages, *(buffer for buffer in buffers if buffer.dtype in COUNTERS)]
        self._finite = [bool(torch.isfinite(buffer).all()) for buffer in self._growing]
        self._rows_at = len(self._objective.names)  # in the sums: how many rows; then what the loss is divided by
        self._sums = numpy.zeros(self._rows_at + (1 if self._counted is None else 2))
        self.gradient_size = sum(_reals(parameter).numel() for parameter in self._trained)
        self.weights_size = self.gradient_size + sum(buffer.numel() for buffer in self._averages)
        self.sums_size = len(self._sums)
        grown = self.gradient_size + sum(buffer.numel() for buffer in self._growing)
        self.size = grown + len(self._trained) + self.sums_size
        self._vector: Any = None  # where gradients are now
        self._total = numpy.zeros(self.size, numpy.float32)

    def check_shares(self) -> None:
        torch_checks.check_dense(self.optimizer)
        if self._counted is None:
            self._sums_rows = sums_rows(self._module, self._loss, self._sample, self._blocks)

    # -- training -------------------------------------------------------------------------------------------------

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: Vector) -> None:
        into[:] = 0
        if not len(rows):
            return
        vector = in_place(into)
        self._use(vector)
        before = [buffer.clone() for buffer in self._growing]
        self._module.train()
        with self._randomness:
            data = batch(self._blocks.tensors(block), self._blocks.rows(rows))
            loss, scores, by = self._forward(data, sums=True)
            (loss if self._sums_rows or by is not None else loss * share).backward()
        with torch.no_grad():
            if self._apart_from(vector):
                self._collect(vector)
            place = self.gradient_size
            for number, (buffer, old) in enumerate(zip(self._growing, before, strict=True)):
                growth = buffer - self._base(number, old)
                vector[place : place + buffer.numel()] = growth.reshape(-1) * share
                buffer.copy_(old)
                place += buffer.numel()
            if self._idle is None:
                vector[place : place + len(self._touched)] = torch.from_numpy(self._touched)
            place += len(self._touched)
            for number, value in enumerate(self._added(loss.detach(), scores, by, len(rows), share)):
                vector[place + number] = value

    def whole(self, total: Vector) -> Vector:
        if self._counted is None:
            return total
        found = total * 1
        place = self._rows_at - len(self._sums)
        by = found[-1] * 1
        with numpy.errstate(all="ignore"):  # where no target counts: then the loss is no number, and says so
            found[: self.gradient_size] /= by
            found[-len(self._sums)] *= found[place] / by
        found[-1] = found[place]  # from now on, the loss counts by rows
        return found

    def apply(self, total: Vector) -> float:
        if isinstance(total, numpy.ndarray):  # an optimizer may change gradients, and the others read this sum
            numpy.copyto(self._total, total)
            total = self._total
        vector = in_place(total)
        if self._idle is None:
            flags = vector[-len(self._touched) - len(self._sums) : -len(self._sums)]
            self._rest([number for number, touched in enumerate(flags.tolist()) if not touched])
        self._use(vector)
        with torch.no_grad():
            if self._apart_from(vector):
                self._spread(vector)
            for number in self._idle or ():
                if not vector[self._places[number]].any():  # one process would leave it as it is, decay and all
                    self._trained[number].grad = None
            place = self.gradient_size
            for number, buffer in enumerate(self._growing):
                growth = vector[place : place + buffer.numel()].view_as(buffer)
                growth = growth if buffer.is_floating_point() else growth.round()
                buffer.copy_(self._base(number, buffer) + growth.to(buffer))
                place += buffer.numel()
        self.optimizer.step()
        sums = vector[-len(self._sums) :].cpu().numpy()
        self._sums += sums
        return float(sums[0] / sums[self._rows_at])

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        data, found = self._blocks.tensors(block), []
        places = self._blocks.rows(numpy.concatenate(batches)).split([len(rows) for rows in batches])
        self._module.train()
        with self._randomness:
            for rows in places:
                self.optimizer.zero_grad()
                loss, scores, _ = self._forward(batch(data, rows))
                loss.backward()
                self.optimizer.step()
                found += [loss.detach(), *scores]
        self._vector = None
        return self._noted(found, batches)

    def _noted(self, found: list[Any], batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        """Add loss and metrics of these batches: read when all are made, so that no device waits for Python."""
        values = numpy.array([float(value) for value in found]).reshape(len(batches), -1)
        counts = numpy.array([len(rows) for rows in batches])
        self._sums += [*counts @ values, *[counts.sum()] * (len(self._sums) - self._rows_at)]
        return values[:, 0].tolist()  # type: ignore[no-any-return]

    def score(self, block: Columns, rows: numpy.ndarray | None, into: Vector) -> None:
        everything = numpy.arange(len(block), dtype=numpy.int32) if rows is None else rows
        self._module.eval()
        with self._randomness, torch.no_grad():
            loss, scores, by = self._forward(
                batch(self._blocks.tensors(block), self._blocks.rows(everything)), sums=True
            )
        share = len(everything) / self._batch_size  # of the batches that one process would score at a time
        for place, value in enumerate(self._added(loss, scores, by, len(everything), share), -len(self._sums)):
            into[place] += float(value)

    def _added(self, loss: Any, scores: Sequence[Any], by: Any, count: int, share: float) -> list[Any]:
        """What so many rows add to the sums: a batch's loss counts by all of its rows, also where it is a sum."""
        told = [*(_number(value) * count for value in scores), count]
        if by is not None:
            return [_number(loss), *told, _number(by)]
        return [_number(loss) * (count / share if self._sums_rows else count), *told]

    def _forward(self, data: Any, *, sums: bool = False) -> tuple[Any, list[Any], Any]:
        """Loss, metrics, None; where `sums` are wanted of a loss that counts: its sum, and what that is divided by."""
        x, y, weight = data
        positional, named = arguments(x)
        with computing(self._precision, self._blocks.device):
            outputs = self._module(*positional, **named)
            scores = self._objective.scores(outputs, y)
            if sums and self._counted is not None:
                return self._counted.sum(outputs, y), scores, self._counted.by(y)
            return self._objective.loss(outputs, y, weight), scores, None

    # -- gradients in the vector ----------------------------------------------------------------------------------

    def _apart_from(self, vector: Any) -> bool:
        """Whether gradients cannot lie in the vector, which is of another type, or elsewhere."""
        return any(p.dtype != vector.dtype or p.device != vector.device for p in self._trained)

    def _use(self, vector: Any) -> None:
        """Let the gradients of the module be parts of this vector."""
        if self._idle is None and not self._watches:
            self._watch()
        if self._apart_from(vector):
            for parameter in self._trained:
                parameter.grad = None
            return
        if not self._idle and self._vector is not None and self._vector.data_ptr() == vector.data_ptr():
            return
        for parameter, place in zip(self._trained, self._places, strict=True):
            parameter.grad = vector[place].view_as(parameter)
        self._vector = vector

    def _collect(self, vector: Any) -> None:
        for parameter, place in zip(self._trained, self._places, strict=True):
            if parameter.grad is not None:
                vector[place] = _reals(parameter.grad.to_dense()).reshape(-1)

    def _spread(self, vector: Any) -> None:
        for parameter, place in zip(self._trained, self._places, strict=True):
            parameter.grad = torch.empty_like(parameter)
            _put(parameter.grad, vector[place])

    def _watch(self) -> None:
        """See in the first step who has a gradient at all: in the vector, all seem to have one."""
        for number, parameter in enumerate(self._trained):

            def touch(_: Any, number: int = number) -> None:
                self._touched[number] = 1

            self._watches.append(parameter.register_post_accumulate_grad_hook(touch))

    def _rest(self, idle: list[int] | None) -> None:
        """Those are idle; nobody need be watched for it."""
        self._idle = idle
        for watch in self._watches:
            watch.remove()
        self._watches = []

    def _base(self, number: int, buffer: Any) -> Any:
        """What a buffer grows from: a constant stays what it is to the bit; what is infinite is sent as it is."""
        return buffer if self._finite[number] else buffer.nan_to_num(0.0, 0.0, 0.0)

    # -- what it has learned --------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._sums[:] = 0

    def logs(self, total: Vector | None = None) -> dict[str, float]:
        sums = self._sums if total is None else in_place(total)[-len(self._sums) :].cpu().numpy()
        counts = [sums[-1], *[sums[self._rows_at]] * (self._rows_at - 1)]
        with numpy.errstate(all="ignore"):
            return {name: float(sums[n] / counts[n]) for n, name in enumerate(self._objective.names)}

    def close(self, logs: dict[str, float]) -> None:
        if self._schedule is not None:
            self._schedule.step(logs)

    def state(self) -> list[Any]:
        tensors = (self._whole.state_dict(), dict(self._whole.named_buffers()), self.optimizer.state_dict())
        schedule = () if self._schedule is None else (self._schedule.state,)
        pickled = pickle.dumps((*tensors, self._randomness, *schedule), protocol=5)
        return [pickled, self._sums.copy(), self._index, self._idle]

    def put(self, state: list[Any]) -> None:
        pickled, sums, index, *idle = state  # checkpoints from before have none
        module, buffers, optimizer, self._randomness, *schedule = pickle.loads(pickled)
        self._whole.load_state_dict(module)
        for name, buffer in self._whole.named_buffers():
            buffer.copy_(buffers[name])
        self.optimizer.load_state_dict(optimizer)
        if self._schedule is not None:
            self._schedule.put(*schedule)
        self._sums[:] = sums
        self._rest(idle[0] if idle else None)
        if index != self._index:  # another worker's
            self._randomness.divert(self._index)

    def copied(self) -> list[Any]:
        buffers = dict(self._whole.named_buffers())
        return [_plain(part) for part in (self._whole.state_dict(), buffers, self.optimizer.state_dict())]

    def weights(self) -> Weights:
        state = self._module.state_dict()
        return {name: as_array(value) for name, value in state.items() if isinstance(value, torch.Tensor)}

    # -- weights in one run ---------------------------------------------------------------------------------------

    def count(self, updates: int) -> None:
        """Nothing: a schedule of PyTorch counts epochs."""

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        before = self._sums.copy()
        self.read_weights(weights)
        self.steps(block, [rows])
        self.write_weights(into)
        into[self.weights_size :] = self._sums - before
        self._sums[:] = before

    def write_weights(self, into: numpy.ndarray) -> None:
        with torch.no_grad():
            vector, learned = torch.from_numpy(into), (*self._trained, *self._averages)
            for tensor, place in zip(learned, _places(learned), strict=True):
                vector[place] = _reals(tensor).reshape(-1)

    def read_weights(self, run: numpy.ndarray) -> None:
        with torch.no_grad():
            vector, learned = torch.from_numpy(run), (*self._trained, *self._averages)
            for tensor, place in zip(learned, _places(learned), strict=True):
                _put(tensor, vector[place])


def _reals(tensor: Any) -> Any:
    """Its numbers in the same memory: of a complex one, both parts."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _put(tensor: Any, numbers: Any) -> None:
    own = _reals(tensor)
    own.copy_(numbers.view_as(own))


def _places(tensors: Sequence[Any]) -> list[slice]:
    """Where each lies in one run."""
    ends = numpy.cumsum([0, *(_reals(tensor).numel() for tensor in tensors)]).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


def _plain(value: Any) -> Any:
    """Tensors as arrays of bytes, whatever they are in, without a copy where they are in the machine's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _number(value: Any) -> Any:
    """Of this machine; or a tensor where it is, so that no device is waited for."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return value.detach().float()
    return float(value)
