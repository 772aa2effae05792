"""In the workers of a launch: a module of PyTorch, of which each worker holds a part (FSDP2).

Every worker has its share of each batch. Parameters are fetched layer by layer when they are used, gradients are added
up over all workers and kept by parts, and each worker's optimizer steps on its part only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate

from tenfold.errors import BadCall
from tenfold.fuse.building import Member, construct, kind_of
from tenfold.fuse.columns import Columns
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import Weights
from tenfold.fuse.torch_plain import unpacked
from tenfold.fuse.torch_step import Blocks, Objective, arguments, as_array, batch, computing
from tenfold.training import diverging, torch_checks, torch_parts, torch_waits
from tenfold.training.adding import part
from tenfold.training.keeper import Keeper, Turns
from tenfold.training.record import Record
from tenfold.training.sharding import Sharded, Share
from tenfold.training.strategy import Progress
from tenfold.training.terms import Checkpointing
from tenfold.training.torch_losses import counted, sums_rows
from tenfold.training.torch_parts import local
from tenfold.training.trained import Helped
from tenfold.work.here import here
from tenfold.work.seeds import number

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class Shards:
    """One worker's part of a module in training."""

    _counts_targets = True

    def __init__(self, fit: Fit, member: Member, precision: str | None = None) -> None:
        built = construct(fit.build, member.params)  # from the seed: the same in all workers
        if kind_of(built) != "torch":
            raise BadCall("build: that it uses Keras is not seen in its code; import keras in it")
        self._fit = fit
        self._member = member
        self._precision = precision
        self._rank, self._count = here().rank, here().workers
        self._row, self._rows = self._rank, self._count  # which of how many parts of a batch is its
        self._group: Any = None  # who has the other parts; None is all
        self._module, loss, self._optimizer, self._rates = unpacked(built)
        torch_checks.check(fit, self._module)
        groups = len(self._optimizer.param_groups)
        self._objective = Objective(loss, fit.metrics)
        both = fit.training, fit.validation_columns
        for data in both:
            self._objective.check(data)
        self._blocks = Blocks(self._module)
        self._reading = Reading(fit, [member], alone=True)
        self._whole = sum(one.nbytes for one in self._module.parameters())
        sample = self._reading.sample
        self._counted = counted(loss, sample, both) if self._shares_rows and self._counts_targets else None
        self._sums_rows = self._counted is not None
        if self._shares_rows and self._counted is None:
            self._sums_rows = sums_rows(self._module, loss, sample, self._blocks)
        self._divide()
        if self._rates is not None and len(self._optimizer.param_groups) != groups:
            raise BadCall(
                "build returned a scheduler, and weights that mesh= cuts get a group of their own in the optimizer, "
                "which it does not know: leave out the scheduler, or mesh= and layout="
            )
        if self._row:  # dropout leaves out others for other rows
            torch.manual_seed(number(member.seed, self._row))
        self._sums = torch.zeros(len(self._objective.names) + 1, dtype=torch.float64)  # and how many rows
        self._progress = Progress(Record.fresh(fit.stopping))
        self._loss = 0.0  # of this worker's share of the last rows

    @property
    def _shares_rows(self) -> bool:
        """Whether a batch is computed in several pieces."""
        return self._count > 1

    def _divide(self) -> None:
        """Keep a part of the module, and let the optimizer have that."""
        groups = names(self._module, self._optimizer)
        scatter(self._module, init_device_mesh(self._blocks.device.type, (self._count,)))
        parts = dict(self._module.named_parameters())
        for group, wanted in zip(self._optimizer.param_groups, groups, strict=True):
            group["params"] = [parts[name] for name in wanted]

    def train(self, keeper: Keeper, often: Checkpointing | None) -> Sharded | Helped:
        """From what was kept, if something was. The first of the workers has the result."""
        with torch_waits.noted(keeper.clock):
            found = self._to_the_end(keeper, often)
            keeper.clock.lap("compute")
            return found

    def _to_the_end(self, keeper: Keeper, often: Checkpointing | None) -> Sharded | Helped:
        kept = keeper.recall()
        if kept is not None:
            self._progress, self._sums, parts, *rates = kept
            torch_parts.put(self._module, self._optimizer, parts)
            if self._rates is not None:
                self._rates.put(*rates)
        self._keeper, self._turns = keeper, Turns(often, self._progress.step, said_by_first)
        progress = self._progress
        while progress.epoch < self._fit.epochs and not progress.record.stopped:
            logs = self._epoch() | self._scores()
            progress.record.add(progress.epoch, logs, self._weights)
            if self._rank == 0:
                self._member.tell(progress.epoch, logs)
            if self._rates is not None:
                self._rates.step(logs)
            progress.epoch, progress.batch = progress.epoch + 1, 0
        result = progress.record.result(self._member.params, self._weights, "sharded")  # by all: weights are gathered
        shares, undivided = self._shares()
        spent = keeper.clock.spent
        if self._rank:
            return Helped(spent)
        return Sharded(result, progress.step, self._count, spent=spent, shares=shares, whole=undivided)

    def _epoch(self) -> dict[str, float]:
        self._module.train()
        progress, clock = self._progress, self._keeper.clock
        for block, used, rows in self._reading.shares(self._member, progress.epoch, progress.batch, self._used):
            clock.lap("input")
            self._loss = 0.0
            self._step(block, used, rows)
            clock.stepped()
            # Each looks at its own share: the others are ended with whoever raises, and nobody waits for a sum.
            diverging.check(self._loss, rows, epoch=progress.epoch, batch=progress.batch, step=progress.step)
            progress.batch, progress.step = progress.batch + 1, progress.step + 1
            if self._turns.due(progress.step):
                parts = torch_parts.taken(self._module, self._optimizer)
                rates = () if self._rates is None else (self._rates.state,)
                self._keeper.keep(progress.step, (progress, self._sums, parts, *rates))
                clock.lap("communication")
        return self._logs()

    def _step(self, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> None:
        self._optimizer.zero_grad()
        before = self._buffers()
        loss, share = self._forward(block, used, rows)
        # The mean over parts is taken of gradients: so it is of their sum, each by its part of the rows.
        (loss * (float(share > 0) if self._sums_rows else share) * self._rows).backward()
        self._average_buffers(before, share)
        self._optimizer.step()

    def _scores(self) -> dict[str, float]:
        if not self._reading.scores:
            return {}
        self._module.eval()
        size = max(self._fit.batch_size, self._count)
        with torch.no_grad():
            for block, used, rows in self._reading.scored_shares(self._member, self._used, size):
                self._score(block, used, rows)
        return {f"val_{name}": value for name, value in self._logs().items()}

    def _score(self, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> None:
        self._forward(block, used, rows)

    def _own(self, rows: numpy.ndarray) -> numpy.ndarray:
        """This worker's share of some rows."""
        return part(rows, self._row, self._rows)

    def _used(self, _batch: int, rows: numpy.ndarray) -> numpy.ndarray:
        """Its share, or two rows that do not count: parameters are fetched by all at once."""
        own = self._own(rows)
        return own if len(own) else rows[:2]

    def _forward(self, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> tuple[Any, float]:
        """The loss of this worker's share of some rows, and how much of them that is."""
        own = self._own(rows)
        x, y, weight = batch(self._blocks.tensors(block), self._blocks.rows(used))
        positional, named = arguments(x)
        share = len(own) / len(rows)
        with computing(self._precision, self._blocks.device):
            outputs = self._module(*positional, **named)
            loss = self._objective.loss(outputs, y, weight) if self._counted is None else self._part(outputs, y, share)
            shown = loss.detach() / (share if self._sums_rows and share else 1.0)
            self._note([shown, *self._objective.scores(outputs, y)], len(own))
        return loss, share

    def _part(self, outputs: Any, y: Any, share: float) -> Any:
        """What this worker's rows add to a loss that is divided by targets of the whole batch."""
        assert self._counted is not None
        by = self._counted.by(y).float() * float(share > 0)
        torch.distributed.all_reduce(by, group=self._group)
        return self._counted.sum(outputs, y) / by

    def _note(self, found: list[Any], count: int) -> None:
        """Loss and metrics of so many rows."""
        if count:
            self._loss = float(found[0])
            self._sums += torch.tensor([*map(float, found), 1.0], dtype=torch.float64) * count

    def _logs(self) -> dict[str, float]:
        """Loss and metrics over the rows of all workers, since the last call."""
        sums, self._sums = self._sums, torch.zeros_like(self._sums)
        torch.distributed.all_reduce(sums)
        return {name: float(value / sums[-1]) for name, value in zip(self._objective.names, sums, strict=False)}

    def _buffers(self) -> list[Any]:
        return [buffer.clone() for buffer in self._module.buffers() if buffer.is_floating_point()]

    def _average_buffers(self, before: list[Any], share: float) -> None:
        """What is learned without a gradient, such as batch norm's averages, is the same everywhere."""
        buffers = [buffer for buffer in self._module.buffers() if buffer.is_floating_point()]
        for buffer, old in zip(buffers, before, strict=True):
            base = old.nan_to_num(0.0, 0.0, 0.0)  # a constant stays what it is; what is infinite is sent as it is
            growth = (buffer - base) * share if share else torch.zeros_like(buffer)
            torch.distributed.all_reduce(growth, group=self._group)
            buffer.copy_(base + growth)

    # -- what each has --------------------------------------------------------------------------------------------

    def _weights(self) -> Weights:
        """Put together, one after the other; kept by the first worker alone."""
        found = {}
        for name, value in self._module.state_dict().items():
            if isinstance(value, torch.Tensor):
                full = whole(value)
                if self._rank == 0:
                    found[name] = as_array(full)
        return found

    def _shares(self) -> tuple[tuple[Share, ...], Share]:
        """Counted from the parts that each worker has in its memory."""
        remembered = [value for state in self._optimizer.state.values() for value in state.values()]
        remembered = [value for value in remembered if isinstance(value, torch.Tensor)]
        own = sum(local(value).nbytes for value in self._module.parameters())
        sizes = torch.tensor([own, sum(local(value).nbytes for value in remembered)])
        every = [torch.zeros_like(sizes) for _ in range(self._count)]
        torch.distributed.all_gather(every, sizes)
        shares = [Share(f"worker {rank}", *map(int, found)) for rank, found in enumerate(every)]
        return tuple(shares), Share("", self._whole, sum(value.nbytes for value in remembered))


def said_by_first(number: int) -> int:
    """The first worker's number, for all."""
    found = torch.tensor([number])
    torch.distributed.broadcast(found, 0)
    return int(found)


def names(module: Any, optimizer: Any) -> list[list[str]]:
    """Which parameters each group of the optimizer has."""
    known = {id(parameter): name for name, parameter in module.named_parameters()}
    if optimizer.state:
        raise BadCall(f"build returned {type(optimizer).__name__} that remembers something already, which stays whole")
    found = [[known.get(id(parameter), "") for parameter in group["params"]] for group in optimizer.param_groups]
    if any(not name for group in found for name in group):
        raise BadCall("build returned an optimizer with parameters that are not the module's, which cannot be divided")
    return found


def scatter(module: Any, mesh: Any, apart: Sequence[Any] = ()) -> None:
    """Cut parameters among the processes of a mesh, but for those of layers that are divided already."""
    ignored = {parameter for layer in apart for parameter in layer.parameters()}
    blocks = list(dict.fromkeys(_blocks(module)))  # a layer may be in several places
    holders = Counter(parameter for block in blocks for parameter in block.parameters())
    for block in [*blocks, module]:
        tied = block is not module and any(holders[one] > 1 for one in block.parameters())  # fetched with the whole
        if not tied and not any(block is layer for layer in apart):
            fully_shard(block, mesh=mesh, ignored_params=ignored)


def _blocks(module: Any) -> list[Any]:
    """What is fetched at a time: the parts of a module, and of the lists among them."""
    found = []
    for child in module.children():
        if isinstance(child, torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict):
            found += _blocks(child)
        elif any(True for _ in child.parameters()):
            found.append(child)
    return found


def whole(tensor: Any) -> Any:
    """Put together along one axis of its mesh after the other: the first was cut last."""
    if not isinstance(tensor, DTensor):
        return tensor
    for axis in range(tensor.device_mesh.ndim):
        places = [Replicate() if number <= axis else place for number, place in enumerate(tensor.placements)]
        tensor = tensor.redistribute(placements=places)
    return tensor.to_local()
