"""In a worker: PyTorch models of one program, whose tensors are stacked; a step is one call for all of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.func import functional_call, vmap

from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.outputs import Outputs, each, joined
from tenfold.fuse.torch_forms import Forms
from tenfold.fuse.torch_optimizers import Settings, Updates, read
from tenfold.fuse.torch_plain import Parts
from tenfold.fuse.torch_same import OBSTACLE
from tenfold.fuse.torch_schedule import Schedule
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
from tenfold.work.run import Declined


@dataclass(frozen=True, slots=True)
class Model:
    """What is kept of a model that was built."""

    built: Parts
    """Module, loss, optimizer, schedule."""
    randomness: Randomness
    """Where building it left the random numbers."""
    settings: Settings | None
    """Of its optimizer, where that has a stacked form."""
    facts: dict[str, Any]
    """What models of one program have in common, by what it is called in a message."""

    @property
    def obstacle(self) -> str | None:
        """Why it cannot be fused with any other."""
        return self.facts[OBSTACLE]  # type: ignore[no-any-return]


class Fused:
    """A `Stack` whose tensors have a row for each model; each step is one call for all models of a chunk."""

    def __init__(
        self, models: Sequence[Model], metrics: Sequence[Any], batch_size: int, chunk: int, *, best: bool
    ) -> None:
        self.module, loss, *_ = models[0].built
        self.objective = Objective(loss, metrics)
        self._batch_size, self._chunk, self._count = batch_size, chunk, len(models)
        facts = models[0].facts
        self._saved: list[tuple[str, str]] = list(facts["what the state_dict holds"])
        named = [dict((*m.built[0].named_parameters(), *m.built[0].named_buffers())) for m in models]
        self.tensors = {name: torch.stack([own[name].detach() for own in named]) for name in named[0]}
        twice = {"remove_duplicate": False}
        every = (*self.module.named_parameters(**twice), *self.module.named_buffers(**twice))
        self._ties = len(every) > len(self.tensors)
        self.trained = [name for name in self.tensors if facts[f"whether {name} is trained"]]
        self._buffers = [name for name, _ in self.module.named_buffers()]
        self._best = {name: tensor.clone() for name, tensor in self.tensors.items()} if best else {}
        settings = [model.settings for model in models if model.settings is not None]
        self.updates = Updates(settings, [self.tensors[name] for name in self.trained])
        self._scheduled = [model for model in models if model.built.schedule is not None]  # all of them, or none
        self.blocks = Blocks(self.module)
        self.begin()

    def __len__(self) -> int:
        return self._count

    # -- an epoch -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        shape = (len(self.objective.names), len(self))
        self._sums = torch.zeros(shape, dtype=torch.float64, device=self.blocks.device)
        self._rows = numpy.zeros(len(self))

    def train(self, block: Columns, order: numpy.ndarray) -> None:
        data, rows = self.blocks.tensors(block), self.blocks.rows(order)
        self.module.train()
        with declining():
            for cut in self._cuts():
                for places in rows[cut].split(self._batch_size, dim=1):
                    gradients = self.gradients(cut, batch(data, places))
                    self.updates.step(cut, [self.tensors[name][cut] for name in self.trained], gradients)

    def test(self, block: Columns, rows: numpy.ndarray | None) -> None:
        data = self.blocks.tensors(block)
        own = None if rows is None else self.blocks.rows(rows)
        count = length(data) if own is None else own.shape[1]
        size = self.objective.test_rows(self._batch_size)
        self.module.eval()
        with declining(), torch.no_grad(), Forms():
            for start in range(0, count, size):
                for cut in self._cuts():
                    stop = min(start + size, count)
                    some = part(data, start, stop) if own is None else batch(data, own[cut, start:stop])
                    scored = vmap(self._one, (0, 0, _axes(some, shared=own is None)))
                    trained = {name: self.tensors[name][cut] for name in self.trained}
                    self._note(cut, stop - start, scored(trained, self._others(cut), some)[1])

    def logs(self) -> dict[str, numpy.ndarray]:
        return dict(zip(self.objective.names, self._sums.cpu().numpy() / self._rows, strict=True))

    def close(self, logs: dict[str, numpy.ndarray]) -> None:
        """Each model's scheduler sets the numbers of its own optimizer, and the stack steps with these."""
        for row, schedule in enumerate(self._schedules):
            schedule.step({name: float(values[row]) for name, values in logs.items()})
        self._follow_schedules()

    @property
    def _schedules(self) -> list[Schedule]:
        return [model.built.schedule for model in self._scheduled if model.built.schedule is not None]

    def _follow_schedules(self) -> None:
        found = []
        for model in self._scheduled:
            settings = read(model.built.optimizer, scheduled=True)
            if isinstance(settings, str) or model.settings is None or settings.flags != model.settings.flags:
                raise Declined("its scheduler changes more than numbers of the optimizer")
            found.append(settings)
        if found:
            self.updates.use(found)

    # -- between epochs -------------------------------------------------------------------------------------------

    def remember(self, better: Sequence[int]) -> None:
        rows = torch.as_tensor(better)
        for name, tensor in self._best.items():
            tensor[rows] = self.tensors[name][rows]

    def keep(self, rows: Sequence[int]) -> None:
        places = torch.as_tensor(rows)
        self._count = len(rows)
        self.tensors, self._best = (
            {name: tensor[places] for name, tensor in tensors.items()} for tensors in (self.tensors, self._best)
        )
        self.updates.keep(rows)
        self._scheduled = [self._scheduled[row] for row in rows] if self._scheduled else []
        self.begin()

    def weights(self, row: int, *, best: bool) -> dict[str, numpy.ndarray]:
        tensors = self._best if best and self._best else self.tensors
        return {key: as_array(tensors[name][row]) for key, name in self._saved}

    def outputs(self, block: Columns, rows: numpy.ndarray | None, done: Sequence[int], *, best: bool) -> list[Outputs]:
        data = self.blocks.tensors(block)
        own = None if rows is None else self.blocks.rows(rows)
        tensors = self._best if best and self._best else self.tensors
        self.module.eval()
        with declining(), torch.no_grad(), Forms():
            return [
                found
                for start in range(0, len(done), self._chunk)
                for found in self._predicted(data, own, torch.as_tensor(done[start : start + self._chunk]), tensors)
            ]

    def _predicted(self, data: Data, own: Any, models: Any, tensors: dict[str, Any]) -> list[Outputs]:
        """Of a chunk of models."""
        chosen = {name: tensor[models] for name, tensor in tensors.items()}
        count = length(data) if own is None else own.shape[1]
        parts = []
        for start in range(0, count, TEST_ROWS):
            places = slice(start, min(start + TEST_ROWS, count))
            x = part(data[0], places.start, places.stop) if own is None else batch(data[0], own[models, places])
            call = vmap(self._outputs, (0, None if own is None else 0))
            parts.append(each(as_array, call(chosen, x)))
        found = joined(parts, axis=1)
        return [each(lambda array: array[row], found) for row in range(len(models))]  # noqa: B023

    def _outputs(self, values: dict[str, Any], x: Any) -> Any:
        return functional_call(self.module, values, *arguments(x), tie_weights=self._ties)

    def snapshot(self) -> list[numpy.ndarray]:
        found = [as_array(t) for t in (*self.tensors.values(), *self._best.values(), *self.updates.state)]
        if self._scheduled:
            found.append(numpy.empty((len(self), 1), object))  # as many numbers as there were epochs: no fixed shape
            for row, schedule in enumerate(self._schedules):
                found[-1][row, 0] = schedule.state
        return found

    def restore(self, arrays: Sequence[numpy.ndarray]) -> None:
        if self._scheduled:
            *arrays, states = arrays
            for schedule, state in zip(self._schedules, states[:, 0], strict=True):
                schedule.put(state)
            self._follow_schedules()
        found = iter([torch.from_numpy(numpy.array(array)).to(self.blocks.device) for array in arrays])
        self.tensors, self._best = ({name: next(found) for name in tensors} for tensors in (self.tensors, self._best))
        self.updates.put(list(found))

    # -- inside ---------------------------------------------------------------------------------------------------

    def gradients(self, cut: slice, data: Data) -> list[Any]:
        """Of one batch, for each trained parameter; buffers and logs go on."""
        # Of the sum: no model's loss depends on another's parameters. torch.func.grad gives the same, a tenth slower,
        # and imports PyTorch's compiler.
        trained = {name: self.tensors[name][cut].detach().requires_grad_() for name in self.trained}
        many = vmap(self._one, (0, 0, _axes(data, shared=False)))
        with Forms():
            losses, aux = many(trained, self._others(cut), data)
            found = torch.autograd.grad(losses.sum(), list(trained.values()))
        self._note(cut, length(data, 1), aux)
        return list(found)

    def _one(self, trained: dict[str, Any], others: dict[str, Any], data: Data) -> tuple[Any, Any]:
        """The loss of one model on one batch, and what else comes of it."""
        x, y, weight = data
        values = {**trained, **others}
        outputs = self._outputs(values, x)
        loss = self.objective.loss(outputs, y, weight)
        scores = [loss.detach(), *self.objective.scores(outputs, y)]
        return loss, (scores, [values[name] for name in self._buffers])  # what the module wrote is in `values`

    def _others(self, cut: slice) -> dict[str, Any]:
        """What is not trained."""
        return {name: tensor[cut] for name, tensor in self.tensors.items() if name not in self.trained}

    def _note(self, cut: slice, rows: int, aux: tuple[list[Any], list[Any]]) -> None:
        """After a batch, and after its way back, which may need the buffers as they were."""
        scores, buffers = aux
        self._rows[cut] += rows
        for total, value in zip(self._sums, scores, strict=True):
            total[cut].add_(value.detach(), alpha=rows)
        for name, value in zip(self._buffers, buffers, strict=True):
            self.tensors[name][cut].copy_(value.detach())

    def _cuts(self) -> list[slice]:
        return [slice(start, start + self._chunk) for start in range(0, len(self), self._chunk)]


def _axes(data: Data, *, shared: bool) -> Any:
    """Over which dimension models differ: none for data that they share."""
    return mapped(lambda tensor: None if tensor is None or shared else 0, data)
