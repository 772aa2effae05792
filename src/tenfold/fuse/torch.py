"""In a worker: groups of PyTorch models, as many at a time as there is room for.

    models ──> facts ──> same program ──> trial ──> Fused: parameters stacked, one vmapped step for all of a chunk
                                            └────> Looped: one after the other (`torch_plain`), for the reason given

Nothing may be fused that would give another result. So two models are one program only if everything but the values of
their tensors and the optimizer's numbers is the same; and before a stack is used, a step of one model is taken both
ways, on copies, and compared.
"""

from __future__ import annotations

import copy
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.func import functional_call, grad, vmap

from tenfold import machine
from tenfold.fuse import Stack, torch_plain, torch_step
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.portrait import Portrait
from tenfold.fuse.torch_optimizers import SCALE_FREE, Settings, Updates, read
from tenfold.fuse.torch_plain import Looped, Outcome, Single
from tenfold.fuse.torch_step import Blocks, Data, Objective, Randomness, as_array, batch, declining, length, part
from tenfold.work.run import Declined

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

TRIAL_STEPS = 3
WORTH_TRYING = 20  # steps of training that must follow, for a trial of speed to be paid back
MEMORY_SHARE = 0.25  # of the seat's memory that the models in training may take at once


@dataclass(frozen=True, slots=True)
class Model:
    """What is kept of a model that was built."""

    built: tuple[Any, Any, Any]
    """Module, loss and optimizer."""
    randomness: Randomness
    """Where building it left the random numbers."""
    settings: Settings | None
    """Of its optimizer, where that has a stacked form."""
    facts: dict[str, Any]
    """What models of one program have in common, by what it is called in a message."""

    @property
    def obstacle(self) -> str | None:
        """Why it cannot be fused with any other."""
        return self.facts[torch_step.OBSTACLE]  # type: ignore[no-any-return]


class TorchWorkshop:
    """A `Workshop` for PyTorch."""

    def __init__(self, fit: Fit, sample: Columns) -> None:
        self._fit = fit
        self._sample = sample.take(slice(0, fit.batch_size))

    def take(self, built: Any) -> Model:
        randomness = Randomness()
        module, loss, optimizer = torch_plain.unpacked(built)
        objective = Objective(loss, self._fit.metrics)
        for data in (self._fit.data, self._fit.validation_columns):
            objective.check(data)
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in module.parameters()):
            raise Declined("the module has parameters without a shape; call it once in build, before the optimizer")
        found = read(optimizer)
        settings, reason = (None, found) if isinstance(found, str) else (found, None)
        facts = torch_step.describe((module, loss, optimizer), settings.flags if settings is not None else None, reason)
        return Model((module, loss, optimizer), randomness, settings, facts)

    def same(self, models: Sequence[Model]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for place, model in enumerate(models):
            groups.setdefault(tuple(model.facts.items()), []).append(place)
        return list(groups.values())

    def portrait(self, model: Model) -> Portrait:
        shapes = {name: value for name, value in model.facts.items() if name.startswith("the shape of ")}
        settings = {name: torch_step.told(value) for name, value in model.facts.items() if name not in shapes}
        return Portrait({name.removeprefix("the shape of "): shape for name, shape in shapes.items()}, settings)

    def stack(self, models: Sequence[Model], rows: int, chunk: int | None) -> tuple[Stack, int, str]:
        if chunk is not None:
            why = f"{len(models)} models, {_words(chunk)}, as before"
            return (self._looped(models) if chunk == 1 else self._fused(models, chunk)), chunk, why
        size, why = self._choose(models, rows)
        return (self._looped(models) if size == 1 else self._fused(models, size)), size, why

    # -- inside ---------------------------------------------------------------------------------------------------

    def _looped(self, models: Sequence[Model]) -> Looped:
        return Looped([Single(m.built, self._fit.metrics, self._fit.batch_size, m.randomness) for m in models])

    def _fused(self, models: Sequence[Model], chunk: int) -> Fused:
        best = self._fit.stopping is not None and self._fit.stopping.restore_best
        return Fused(models, self._fit.metrics, self._fit.batch_size, chunk, best=best)

    def _choose(self, models: Sequence[Model], rows: int) -> tuple[int, str]:
        """How many at a time, and why."""
        if self._fit.how == "looped":
            return 1, 'how="looped" was asked for'
        if models[0].obstacle is not None:
            return 1, models[0].obstacle
        if len(models) == 1:
            return 1, "no other model is the same program"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # vmap says in a warning that it calls an operation once for each model
            trial = Trial(self._fit, models[0], self._sample)
            reason = trial.obstacle(self._fused(models[:2], 2)) or _slow_operation(said)
            if reason is not None:
                return 1, reason
            size = _even(len(models), max(2, int(_room(models[0]) / trial.nbytes)))
            if self._fit.how == "fused" or self._fit.epochs * rows < WORTH_TRYING * self._fit.batch_size:
                return size, f"{len(models)} models, {_words(size)}"
            return self._faster(trial, models, size)

    def _faster(self, trial: Trial, models: Sequence[Model], size: int) -> tuple[int, str]:
        fused = trial.seconds_fused(self._fused(models[:size], size)) / size
        looped = trial.seconds_looped()
        numbers = f"{1e3 * fused * size:.3g} ms a step, {1e3 * looped * size:.3g} ms one at a time"
        if looped < fused:
            return 1, f"{len(models)} models, faster one at a time ({numbers} for {size})"
        return size, f"{len(models)} models, {_words(size)} ({numbers})"


# -- the step of many models ------------------------------------------------------------------------------------------


class Fused:
    """A `Stack` whose tensors have a row for each model; each step is one call for all models of a chunk."""

    def __init__(
        self, models: Sequence[Model], metrics: Sequence[Any], batch_size: int, chunk: int, *, best: bool
    ) -> None:
        self.module, loss, _ = models[0].built
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
        with declining(), torch.no_grad():
            for start in range(0, count, size):
                for cut in self._cuts():
                    stop = min(start + size, count)
                    some = part(data, start, stop) if own is None else batch(data, own[cut, start:stop])
                    scored = vmap(self._one, (0, 0, _axes(some, shared=own is None)))
                    self._note(cut, stop - start, self._call(scored, cut, some)[1])

    def logs(self) -> dict[str, numpy.ndarray]:
        return dict(zip(self.objective.names, self._sums.cpu().numpy() / self._rows, strict=True))

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
        self.begin()

    def weights(self, row: int, *, best: bool) -> dict[str, numpy.ndarray]:
        tensors = self._best if best and self._best else self.tensors
        return {key: as_array(tensors[name][row]) for key, name in self._saved}

    def snapshot(self) -> list[numpy.ndarray]:
        return [as_array(t) for t in (*self.tensors.values(), *self._best.values(), *self.updates.state)]

    def restore(self, arrays: Sequence[numpy.ndarray]) -> None:
        found = iter([torch.from_numpy(numpy.array(array)).to(self.blocks.device) for array in arrays])
        self.tensors, self._best = ({name: next(found) for name in tensors} for tensors in (self.tensors, self._best))
        self.updates.put(list(found))

    # -- inside ---------------------------------------------------------------------------------------------------

    def gradients(self, cut: slice, data: Data) -> list[Any]:
        """Of one batch, for each trained parameter; buffers and logs go on."""
        found, aux = self._call(vmap(grad(self._one, has_aux=True), (0, 0, _axes(data, shared=False))), cut, data)
        self._note(cut, length(data, 1), aux)
        return [found[name] for name in self.trained]

    def _one(self, trained: dict[str, Any], others: dict[str, Any], data: Data) -> tuple[Any, Any]:
        """The loss of one model on one batch, and what else comes of it."""
        x, y, weight = data
        values = {**trained, **others}
        outputs = functional_call(self.module, values, *torch_step.arguments(x), tie_weights=self._ties)
        loss = self.objective.loss(outputs, y, weight)
        scores = [loss.detach(), *self.objective.scores(outputs, y)]
        return loss, (scores, [values[name] for name in self._buffers])  # what the module wrote is in `values`

    def _call(self, function: Any, cut: slice, data: Data) -> tuple[Any, list[Any]]:
        trained = {name: self.tensors[name][cut] for name in self.trained}
        others = {name: tensor[cut] for name, tensor in self.tensors.items() if name not in trained}
        found, (scores, buffers) = function(trained, others, data)
        for name, value in zip(self._buffers, buffers, strict=True):
            others[name].copy_(value)
        return found, scores

    def _note(self, cut: slice, rows: int, scores: list[Any]) -> None:
        self._rows[cut] += rows
        for total, value in zip(self._sums, scores, strict=True):
            total[cut].add_(value, alpha=rows)

    def _cuts(self) -> list[slice]:
        return [slice(start, start + self._chunk) for start in range(0, len(self), self._chunk)]


def _axes(data: Data, *, shared: bool) -> Any:
    """Over which dimension models differ: none for data that they share."""
    return mapped(lambda tensor: None if tensor is None or shared else 0, data)


# -- is it worth it ---------------------------------------------------------------------------------------------------


class Trial:
    """A few steps of one model, on copies of it: whether it may be fused, and what that would bring."""

    def __init__(self, fit: Fit, model: Model, sample: Columns) -> None:
        self._fit = fit
        self._model = model
        self._sample = sample
        self.nbytes = 0
        """What a model takes in training, once it was tried."""

    def obstacle(self, fused: Fused) -> str | None:
        """Why it may not be fused, in words; `fused` holds the model as its first, and is used up."""
        try:
            single = self._copy()
        except Exception as error:
            return f"it cannot be copied: {torch_step.line(error)}"
        data = Blocks(single.module).tensors(self._sample)
        before = self._facts(single)
        with declining():
            expected = torch_plain.rehearse(single, data, fused.trained)
        self.nbytes = expected.nbytes
        unused = [name for name, gradient in expected.gradients.items() if gradient is None]
        reason = f"the parameter {unused[0]} has no part in the loss" if unused else None
        return self._impure(single, before) or reason or self._compare(fused, expected, data)

    def _compare(self, fused: Fused, expected: Outcome, data: Data) -> str | None:
        name = type(fused.module).__name__
        try:
            found = self._found(fused, expected, data)
        except Exception as error:
            return f"vmap does not support {name}: {torch_step.line(error)}"
        reason = torch_plain.first_difference(expected, found)
        noise = None if self._fit.how == "fused" else torch_plain.only_rounding(expected, found)
        if reason is None and noise is not None and (kind := type(self._model.built[2]).__name__) in SCALE_FREE:
            return f"the gradient of {noise} is zero but for rounding, and {kind} makes steps of that"
        return reason

    def seconds_fused(self, fused: Fused) -> float:
        """A step of all of these."""
        rows = numpy.broadcast_to(numpy.arange(len(self._sample)), (len(fused), len(self._sample)))
        return _fastest(lambda: fused.train(self._sample, rows))

    def seconds_looped(self) -> float:
        """A step of one."""
        single = self._copy()
        blocks = Blocks(single.module)
        rows = blocks.rows(numpy.arange(len(self._sample)))
        return _fastest(lambda: single.train(blocks.tensors(self._sample), rows))

    def _copy(self) -> Single:
        built = copy.deepcopy(self._model.built)  # at once, so that the optimizer holds the copied parameters
        return Single(built, self._fit.metrics, self._fit.batch_size, copy.copy(self._model.randomness))

    def _facts(self, single: Single) -> dict[str, Any]:
        single.module.train()
        return torch_step.describe((single.module, single.loss, single.optimizer), None, None)

    def _impure(self, single: Single, before: dict[str, Any]) -> str | None:
        """What the steps of a model have done besides changing its tensors."""
        drawn = self._model.randomness.drawn(single.randomness)
        if drawn is not None:
            kinds = [type(layer).__name__ for layer in single.module.modules()]
            return f"{next((kind for kind in kinds if 'Dropout' in kind), kinds[0])} draws from {drawn}"
        after = self._facts(single)
        changed = next((name for name in {**before, **after} if before.get(name) != after.get(name)), None)
        return f"its forward pass changes {changed}" if changed is not None else None

    def _found(self, fused: Fused, expected: Outcome, data: Data) -> Outcome:
        """The same by a stack, for its first model."""
        both = slice(0, 2)
        rows = numpy.stack([numpy.arange(len(self._sample))] * 2)
        fused.module.train()
        given = fused.gradients(both, batch(data, torch.from_numpy(rows).to(fused.blocks.device)))
        gradients = {name: tensor[0] for name, tensor in zip(fused.trained, given, strict=True)}
        buffers = {name: fused.tensors[name][0].clone() for name in expected.buffers}
        logs = {"train": _first_row(fused)}
        for factor in torch_plain.FACTORS:
            pairs = [torch.stack([expected.gradients[name] * factor] * 2) for name in fused.trained]
            fused.updates.step(both, [fused.tensors[name] for name in fused.trained], pairs)
        moved = {name: fused.tensors[name][0] - expected.start[name] for name in fused.trained}
        for name, own in (("test", None), ("own", rows)):
            fused.begin()
            fused.test(self._sample, own)
            logs[name] = _first_row(fused)
        return Outcome(gradients, buffers, expected.start, moved, logs, expected.nbytes)


def _first_row(fused: Fused) -> dict[str, float]:
    return {name: float(values[0]) for name, values in fused.logs().items()}


def _fastest(step: Callable[[], None]) -> float:
    """Seconds; the first call, which warms up, does not count."""
    step()
    found = []
    for _ in range(TRIAL_STEPS):
        began = time.perf_counter()
        step()
        found.append(time.perf_counter() - began)
    return min(found)


def _slow_operation(said: Sequence[warnings.WarningMessage]) -> str | None:
    for one in said:
        if "performance drop" in str(one.message):
            name = re.search(r"aten::\w+", str(one.message))
            return f"vmap does not support {name[0] if name else 'one of its operations'}: it is called for each model"
    return None


def _room(model: Model) -> float:
    device = next(model.built[0].parameters()).device
    if device.type == "cuda":
        return MEMORY_SHARE * float(torch.cuda.mem_get_info(device)[0])
    found = machine.look()
    return MEMORY_SHARE * found.memory / max(1.0, found.cpus)


def _even(count: int, most: int) -> int:
    """The size of chunks of at most `most` that are most alike; never a chunk of one, which would be looped."""
    return max(2, -(-count // -(-count // most)))


def _words(size: int) -> str:
    return "one at a time" if size == 1 else f"{size} at a time"
