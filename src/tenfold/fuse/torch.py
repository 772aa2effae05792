"""In a worker: groups of PyTorch models, as many at a time as there is room for.

    models ──> facts ──> same program ──> trial ──> Fused: parameters stacked, one vmapped step for all of a chunk
                                            └────> Looped: one after the other (`torch_plain`), for the reason given

Nothing may be fused that would give another result. So two models are one program only if everything but the values of
their tensors and the optimizer's numbers is the same; and before a stack is used, steps of two models are taken both
ways, on copies, and compared.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from tenfold.fuse import Stack, chunks, torch_plain, torch_same
from tenfold.fuse.building import watching
from tenfold.fuse.columns import Columns
from tenfold.fuse.portrait import Portrait
from tenfold.fuse.stopping import EarlyStopping
from tenfold.fuse.torch_optimizers import read
from tenfold.fuse.torch_plain import Looped, Single
from tenfold.fuse.torch_stack import Fused, Model
from tenfold.fuse.torch_step import Objective, Randomness
from tenfold.fuse.torch_trial import Trial
from tenfold.work.run import Declined

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

SHORT = 5.0  # seconds of training that are not worth trying the other way: its first step alone may take one
AT_A_TIME = 32  # models of a study, where the number must not be measured
WORTH_TRYING = 20  # steps of training that must follow, for a trial of speed to be paid back


class TorchWorkshop:
    """A `Workshop` for PyTorch."""

    def __init__(self, fit: Fit, sample: Columns) -> None:
        self._fit = fit
        self._sample = sample.take(slice(0, fit.batch_size))

    def take(self, built: Any) -> Model:
        randomness = Randomness()
        parts = torch_plain.unpacked(built)
        objective = Objective(parts.loss, self._fit.metrics)
        for data in (self._fit.training, self._fit.validation_columns):
            objective.check(data)
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in parts.module.parameters()):
            raise Declined("the module has parameters without a shape; call it once in build, before the optimizer")
        found = read(parts.optimizer, scheduled=parts.schedule is not None)
        settings, reason = (None, found) if isinstance(found, str) else (found, None)
        facts = torch_same.describe(parts, settings.flags if settings is not None else None, reason)
        return Model(parts, randomness, settings, facts)

    def same(self, models: Sequence[Model]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for place, model in enumerate(models):
            groups.setdefault(tuple(model.facts.items()), []).append(place)
        # Neighbours whose numbers are the same take a step of Adam in one call: over seeds and rates in any order,
        # an epoch of 64 small models takes 0.6 of the time.
        return [sorted(places, key=lambda place: _numbers(models[place])) for places in groups.values()]

    def nbytes(self, model: Model) -> int:
        """As a step of a copy shows."""
        return Trial(self._fit, model, model, self._sample).needed()

    def portrait(self, model: Model) -> Portrait:
        shapes = {name: value for name, value in model.facts.items() if name.startswith("the shape of ")}
        settings = {name: torch_same.told(value) for name, value in model.facts.items() if name not in shapes}
        return Portrait({name.removeprefix("the shape of "): shape for name, shape in shapes.items()}, settings)

    def stopping(self, model: Model) -> EarlyStopping | None:
        rule = self._fit.stopping
        return None if rule is None else watching(rule, Objective(model.built.loss, self._fit.metrics).names)

    def stack(self, models: Sequence[Model], rows: int, chunk: int | None) -> tuple[Stack, int, str]:
        if chunk is not None:
            why = f"{chunks.words(len(models), chunk)}, as before"
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
        if len(models) == 1 and not self._fit.steady:
            return 1, "no other model is the same program"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # vmap says in a warning that it calls an operation once for each model
            two = models[0], models[-1]
            trial = Trial(self._fit, *two, self._sample)
            reason = trial.obstacle(self._fused(two, 2)) or _slow_operation(said)
            if reason is not None:
                return 1, reason
            if self._fit.steady:
                return AT_A_TIME, chunks.words(len(models), AT_A_TIME)
            size = max(2, chunks.even(len(models), max(2, int(_room(models[0]) / trial.nbytes))))  # one would be looped
            if self._fit.how == "fused" or self._fit.epochs * rows < WORTH_TRYING * self._fit.batch_size:
                return size, chunks.words(len(models), size)
            return self._faster(trial, models, size, self._fit.epochs * rows / self._fit.batch_size)

    def _faster(self, trial: Trial, models: Sequence[Model], size: int, steps: float) -> tuple[int, str]:
        fused = trial.seconds_fused(self._fused(models[:size], size)) / size
        if fused * len(models) * steps < SHORT:
            return size, f"{chunks.words(len(models), size)} ({1e3 * fused * size:.3g} ms a step)"
        looped = trial.seconds_looped()
        numbers = f"{1e3 * fused * size:.3g} ms a step, {1e3 * looped * size:.3g} ms one at a time"
        if looped < fused:
            return 1, f"{len(models)} models, faster one at a time ({numbers} for {size})"
        return size, f"{chunks.words(len(models), size)} ({numbers})"


def _numbers(model: Model) -> tuple[float, ...]:
    return tuple(model.settings.numbers.values()) if model.settings is not None else ()


def _slow_operation(said: Sequence[warnings.WarningMessage]) -> str | None:
    for one in said:
        if "performance drop" in str(one.message):
            name = re.search(r"aten::\w+", str(one.message))
            return f"vmap does not support {name[0] if name else 'one of its operations'}: it is called for each model"
    return None


def _room(model: Model) -> float:
    device = next(model.built[0].parameters()).device
    if device.type == "cuda":
        return chunks.MEMORY_SHARE * float(torch.cuda.mem_get_info(device)[0])
    return chunks.room()
