"""In the workers of a launch: a Sequential of PyTorch, of which each worker has some layers (a pipeline).

```
workers=4, stages=2      stage 0         stage 1
first half of rows       worker 0   ──>  worker 1     pieces of a batch go to the right, their gradients to the left
second half              worker 2   ──>  worker 3     one above the other: the same layers, divided by FSDP2
```

Pieces have one size, since that is what is agreed on once. What a smaller batch lacks is filled up with rows that do
not count: no loss is taken of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from tenfold.errors import BadCall
from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns, leaves, mapped
from tenfold.fuse.result import Weights
from tenfold.fuse.torch_step import as_array, batch
from tenfold.training.sharded_torch import Shards, names, scatter, whole
from tenfold.training.sharding import ROWS, Share
from tenfold.training.staging import Layers, staged
from tenfold.work.seeds import number

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

STAGES = "stages"
FULL = 2  # pieces of a batch for each stage; with more, stages wait less for each other, and each piece costs messages


class Pipeline(Shards):
    """One worker's layers."""

    _counts_targets = False  # a loss is taken of each piece of a batch

    def __init__(self, fit: Fit, member: Member, stages: int) -> None:
        self._stages = stages
        super().__init__(fit, member)
        if self._rank:  # dropout leaves out others in other layers, and for other rows
            torch.manual_seed(number(member.seed, self._rank))

    @property
    def _shares_rows(self) -> bool:
        return True

    def _divide(self) -> None:
        if not isinstance(self._reading.sample.x, numpy.ndarray):
            raise BadCall(f"stages={self._stages}: a Sequential takes one input, and the data has several")
        found = staged(self._module, self._stages)
        groups = names(self._module, self._optimizer)
        shape = self._count // self._stages, self._stages
        mesh = init_device_mesh(self._blocks.device.type, shape, mesh_dim_names=(ROWS, STAGES))
        self._row, self._stage = divmod(self._rank, self._stages)
        self._rows, self._group = shape[0], mesh[ROWS].get_group()
        self._homes = _homes(self._module, found)
        self._paths = [path for path, _ in found[self._stage]]
        self._module = torch.nn.Sequential(*(layer for _, layer in found[self._stage]))
        if self._stage:  # what is received may not be written to, and a layer may work in place
            self._module.register_forward_pre_hook(lambda _module, inputs: tuple(one.clone() for one in inputs))
        if self._rows > 1:
            scatter(self._module, mesh[ROWS])
        parts = {self._path(name): parameter for name, parameter in self._module.named_parameters()}
        for group, wanted in zip(self._optimizer.param_groups, groups, strict=True):
            group["params"] = [parts[name] for name in wanted if name in parts]
        self._along = mesh[STAGES].get_group()
        self._schedule()

    def _path(self, name: str) -> str:
        """What something of this stage is called in the whole module."""
        place, _, rest = name.partition(".")
        return f"{self._paths[int(place)]}.{rest}"

    def _schedule(self) -> None:
        most = min(self._fit.batch_size, max(self._fit.rows_of(self._member)))
        most = max(most, self._count)
        most = max(min(most, 3), -(-most // self._rows))  # rows that a pipeline has at once: of five, one has three
        self._size = -(-most // (FULL * self._stages))
        self._pieces = max(self._stages, -(-most // self._size))
        training, scoring = (
            PipelineStage(self._module, self._stage, self._stages, self._blocks.device, group=self._along)
            for _ in range(2)
        )
        self._training = Schedule1F1B(training, self._pieces, loss_fn=self._piece_loss, scale_grads=False)
        self._scoring = ScheduleGPipe(scoring, self._pieces, scale_grads=False)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _step(self, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> None:
        self._optimizer.zero_grad()
        before = self._buffers()
        self._run(self._training, block, used, rows)
        self._average_buffers(before, len(self._own(rows)) / len(rows))
        self._optimizer.step()

    def _score(self, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> None:
        self._run(self._scoring, block, used, rows)

    def _run(self, schedule: Any, block: Columns, used: numpy.ndarray, rows: numpy.ndarray) -> None:
        """Send this pipeline's share of some rows through it; the last stage notes what came out."""
        own, length = used[: len(self._own(rows))], self._pieces * self._size
        x, y, weight = self._blocks.tensors(block)
        inputs: list[Any] = []
        target = {}
        if self._stage == 0:
            inputs.append(batch(x, self._blocks.rows(numpy.resize(used, length))))
        if self._stage == self._stages - 1:
            self._batch = (*batch((y, weight), self._blocks.rows(own)), len(own), len(rows))
            target = {"target": torch.arange(length)} if schedule is self._training else {}
        outputs = schedule.step(*inputs, **target)
        if self._stage == self._stages - 1 and len(own):
            self._note_outputs(_first(outputs, len(own)))

    def _piece_loss(self, outputs: Any, places: Any) -> Any:
        """What one piece adds to the loss of the batch; `places` are those of its rows in this pipeline's share."""
        y, weight, count, every = self._batch
        start = int(places[0])
        held = max(0, min(len(places), count - start))
        real = _first(outputs, held)
        if not held:
            return sum(leaf.sum() for leaf in leaves(real))
        targets, weights = mapped(lambda one: None if one is None else one[start : start + held], (y, weight))
        loss = self._objective.loss(real, targets, weights)
        # The mean over pipelines is taken of gradients: so it is of their sum.
        return loss * self._rows * (1.0 if self._sums_rows else held / every)

    def _note_outputs(self, outputs: Any) -> None:
        y, weight, count, every = self._batch
        with torch.no_grad():
            loss = self._objective.loss(outputs, y, weight) / (count / every if self._sums_rows else 1.0)
        self._note([loss, *self._objective.scores(outputs, y)], count)

    # -- what each has --------------------------------------------------------------------------------------------

    def _weights(self) -> Weights:
        """From stage to stage of the first pipeline, one after the other."""
        found: dict[str, numpy.ndarray] = {}
        own = {self._path(name): value for name, value in self._module.state_dict().items()}
        for name, (home, like) in self._homes.items():
            value: Any = whole(own[name]) if home == self._stage else None  # by all pipelines
            if self._row == 0 and home == self._stage != 0:
                torch.distributed.send(value.detach().contiguous(), 0)
            elif self._rank == 0:
                if value is None:
                    value = torch.empty_like(like, device=self._blocks.device)
                    torch.distributed.recv(value, home)
                found[name] = as_array(value)
        return found

    def _shares(self) -> tuple[tuple[Share, ...], Share]:
        shares, own = super()._shares()
        remembered = torch.tensor(own.optimizer)
        torch.distributed.all_reduce(remembered, group=self._along)
        return shares, replace(own, optimizer=int(remembered))


def _homes(module: Any, found: list[Layers]) -> dict[str, tuple[int, Any]]:
    """For each part of the module's state: which stage has it, and what it is like, without its numbers."""
    stages = {path: stage for stage, layers in enumerate(found) for path, _ in layers}
    homes = {}
    for name, value in module.state_dict().items():
        if isinstance(value, torch.Tensor):
            stage = next(stage for path, stage in stages.items() if name.startswith(f"{path}."))
            homes[name] = (stage, torch.empty_like(value, device="meta"))
    return homes


def _first(outputs: Any, count: int) -> Any:
    """These rows of what came out."""
    return mapped(lambda one: one[:count], outputs)
