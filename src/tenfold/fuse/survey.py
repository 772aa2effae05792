"""In a worker: looks at models as if to train them, and says how that would be done. Only a few steps are taken."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold.fuse import Stack, Workshop, settings
from tenfold.fuse.building import Member
from tenfold.fuse.portrait import Portrait
from tenfold.fuse.reading import Reading
from tenfold.fuse.together import build_all, groups, judged
from tenfold.work.here import Here
from tenfold.work.run import Declined

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

FEW = 8  # steps that are measured


@dataclass(frozen=True, slots=True)
class Finding:
    """How one model would be trained."""

    group: str
    """Names the group that it would be in; empty for one that is trained alone."""
    how: str
    """In which way, and why."""
    seconds: float
    """Its share of the expected time, in its worker."""
    step_seconds: float
    """How long a step of its whole group takes."""
    nbytes: int
    """Its share of the memory that its group takes in training: what is kept of all, and a chunk at work."""
    rows: tuple[int, int]
    """How many train it, and how many score it."""
    portrait: Portrait | None
    """What it looks like."""


class Survey:
    """A `Fit` that is looked at, not trained."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self.likeness = fit.likeness
        self.refusal = fit.refusal
        self.variables = fit.variables
        self.check = fit.check

    def __call__(self, params: Any) -> Finding:
        return _alone("as asked")

    def together(self, tasks: Sequence[tuple[Here, Any]]) -> list[Any]:
        with settings.applied(self._fit.settings):
            return self._findings(tasks)

    def _findings(self, tasks: Sequence[tuple[Here, Any]]) -> list[Any]:
        found: dict[int, Any] = {}
        members = [self._fit.member(params, task) for task, params in tasks]
        workshop, models = build_all(self._fit, members, found, tasks[0][0].shared)
        if workshop is not None:
            found |= _look(self._fit, workshop, members, models)
        for index, value in found.items():
            if isinstance(value, Declined):
                found[index] = _alone(str(value))
        return [found[task.index] for task, _ in tasks]

    def alone(self, reasons: Mapping[int, str]) -> _Refused:
        return _Refused(next(iter(reasons.values())))

    def received(self, value: Any) -> Any:
        return value

    def finished(self, folder: Path) -> None:
        """Nothing was kept."""

    def __tenfold_parts__(self) -> dict[str, Any]:
        return self._fit.__tenfold_parts__()

    def __tenfold_modules__(self, named: set[str]) -> list[str]:
        return self._fit.__tenfold_modules__(named)


class _Refused:
    """Says for every model that it is trained alone, and why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __call__(self, params: Any) -> Finding:
        return _alone(self._reason)


def _alone(reason: str) -> Finding:
    return Finding("", f"alone: {reason}", 0.0, 0.0, 0, (0, 0), None)


def _look(fit: Fit, workshop: Workshop, members: Sequence[Member], models: dict[int, Any]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for places in groups(fit, workshop, members, models, {}):
        own = [members[place] for place in places]
        finding: Finding | Exception
        try:
            finding = _finding(fit, workshop, own, [models[place] for place in places])
        except Exception as error:
            finding = judged(error)
        found |= dict.fromkeys([member.index for member in own], finding)
    return found


def _finding(fit: Fit, workshop: Workshop, members: Sequence[Member], models: Sequence[Any]) -> Finding:
    rows = fit.rows_of(members[0])
    began = time.perf_counter()
    stack, chunk, why = workshop.stack(models, rows[0], None)
    ready = time.perf_counter() - began
    steps = max(1, rows[0] // fit.batch_size)
    step = _seconds_a_step(fit, stack, members, steps)
    seconds = (ready + step * steps * fit.epochs) / len(members)
    kept = len(pickle.dumps(stack.snapshot(), protocol=5))
    nbytes = (kept + chunk * workshop.nbytes(models[0])) // len(members)
    how = f"{'fused' if chunk > 1 else 'looped'}: {why}"
    return Finding(str(members[0].index), how, seconds, step, nbytes, rows, workshop.portrait(models[0]))


def _seconds_a_step(fit: Fit, stack: Stack, members: Sequence[Member], steps: int) -> float:
    known: float | None = getattr(stack, "step_seconds", None)
    return _measured(fit, stack, members, min(steps, FEW)) if known is None else known


def _measured(fit: Fit, stack: Stack, members: Sequence[Member], few: int) -> float:
    block, order = next(iter(Reading(fit, members).training(members, 0)))
    seconds = 0.0
    for _ in range(2):  # the first time may compile
        began = time.perf_counter()
        stack.begin()
        stack.train(block, order[:, : few * fit.batch_size])
        stack.logs()
        seconds = time.perf_counter() - began
    return seconds / few
