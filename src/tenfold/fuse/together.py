"""In a worker: a batch of parameter sets, trained in as few programs as they are."""

from __future__ import annotations

import gc
import hashlib
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tenfold.errors import BadCall
from tenfold.fuse import Workshop, checkpoint, refusing, settings, torch_light
from tenfold.fuse.building import Member, construct, kind_of, same_params
from tenfold.fuse.group import Group
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import FitResult
from tenfold.work.here import Here
from tenfold.work.run import Declined

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

PARTS = {
    "LearningRateSchedule": "the learning-rate schedule",
    "Constraint": "the constraint",
    "Regularizer": "the regularizer",
    "Loss": "the loss",
    "Metric": "the metric",
    "Layer": "layer",
}
"""Keras's classes, and what they are called in reasons."""


def train(fit: Fit, tasks: Sequence[tuple[Here, Any]]) -> list[Any]:
    """A `FitResult` for each task, or the exception that stopped it; `Declined` where it is to be trained alone."""
    with settings.applied(fit.settings), torch_light.light():
        return _results(fit, tasks)


def _results(fit: Fit, tasks: Sequence[tuple[Here, Any]]) -> list[Any]:
    folder = tasks[0][0].shared / checkpoint.FOLDER
    found: dict[int, Any] = {}
    members: list[Member] = []
    for task, item in tasks:
        try:
            members.append(fit.member(item, task))
        except BadCall as error:
            found[task.index] = error
    under_way, finished = checkpoint.read(folder)
    found |= {m.index: finished[m.index] for m in members if _is(finished.get(m.index), m)}
    members = [member for member in members if member.index not in found]
    saved = {m.index: m.leg.state for m in members if m.leg is not None and m.leg.state is not None}
    saved |= {m.index: under_way[m.index] for m in members if _is(under_way.get(m.index), m)}
    for task, _ in tasks:
        if task.judge is not None and task.index in saved:
            task.judge.recall(saved[task.index].epochs())
    if members:
        found |= _train(fit, members, saved, folder)
    return [found[task.index] for task, _ in tasks]


def _is(kept: Any, member: Member) -> bool:
    """Whether what was kept is this model's."""
    return kept is not None and same_params(kept.params, member.params)


def _train(
    fit: Fit, members: Sequence[Member], saved: dict[int, checkpoint.Saved], folder: Path
) -> dict[int, FitResult | BaseException]:
    found: dict[int, FitResult | BaseException] = {}
    workshop, models = build_all(fit, members, found, folder.parent)
    if workshop is None:
        return found
    for places in groups(fit, workshop, members, models, saved):
        own = [members[place] for place in places]
        try:
            found |= _train_group(fit, workshop, own, [models[place] for place in places], saved, folder)
        except Exception as error:
            found |= dict.fromkeys([member.index for member in own], judged(error))
    return found


def judged(error: Exception) -> Declined | BadCall:
    """What it means for the models of a group that their training has ended so."""
    if isinstance(error, Declined | BadCall):
        return error
    # Memory that did not suffice, an operation that has no form for several models.
    return Declined(f"they cannot be trained together: {type(error).__name__}: {_line(error)}")


def _train_group(
    fit: Fit,
    workshop: Workshop,
    members: list[Member],
    models: list[Any],
    saved: dict[int, checkpoint.Saved],
    folder: Path,
) -> dict[int, FitResult]:
    before = [saved[member.index] for member in members if member.index in saved]
    stopping = workshop.stopping(models[0])
    reading = Reading(fit, members)
    stack, chunk, why = workshop.stack(models, fit.rows_of(members[0])[0], before[0].chunk if before else None)
    how = "fused" if chunk > 1 else "looped"
    group = Group(fit, stack, members, reading, f"{how}: {why}", stopping=stopping)
    if before:
        group.go_on(before)
    name = hashlib.blake2b(repr([member.index for member in members]).encode(), digest_size=8).hexdigest()
    return group.train(checkpoint.Checkpoints(folder, name), chunk)


def build_all(
    fit: Fit, members: Sequence[Member], found: dict[int, Any], shared: Path
) -> tuple[Workshop | None, dict[int, Any]]:
    """Build every model, and keep what is needed of it by its place; what fails goes to `found`."""
    workshop: Workshop | None = None
    models: dict[int, Any] = {}
    gc.disable()  # hundreds of models are a lot to go through, and none of it is garbage yet
    try:
        for place, member in enumerate(members):
            try:
                built = construct(fit.build, member.params)
                kind = kind_of(built)
                refusing.check(fit, member, built, kind)
                if workshop is None:
                    workshop = _workshop(kind, fit, members, shared)
                models[place] = workshop.take(built)
            except (Declined, BadCall) as error:
                found[member.index] = error
            except Exception as error:
                # It may be the backend that is to blame; trained alone, it has the caller's, and says so itself.
                found[member.index] = Declined(_why_not_built(error))
    finally:
        gc.enable()
    return workshop, models


def _workshop(kind: str, fit: Fit, members: Sequence[Member], shared: Path) -> Workshop:
    if fit.callbacks:
        raise Declined(f"the callback {type(fit.callbacks[0]).__name__} wants to see the model while it is trained")
    if kind == "keras":
        from tenfold.fuse.keras import KerasWorkshop

        return KerasWorkshop(fit, Reading(fit, members), shared / "compiled")
    from tenfold.fuse.torch import TorchWorkshop

    return TorchWorkshop(fit, Reading(fit, members).sample)


def groups(
    fit: Fit,
    workshop: Workshop,
    members: Sequence[Member],
    models: dict[int, Any],
    saved: dict[int, checkpoint.Saved],
) -> list[list[int]]:
    """Places of the members that are one program on equally many rows, at the same epoch."""
    found: list[list[int]] = []
    places = list(models)
    for same in workshop.same([models[place] for place in places]):
        apart: dict[Any, list[int]] = {}
        for place in (places[number] for number in same):
            member = members[place]
            before = saved.get(member.index)
            rows = (fit.rows_of(member), member.rows is None, fit.own_validation(member), fit.outputs_of(member))
            apart.setdefault((rows, before and (before.epoch, before.chunk, before.shapes)), []).append(place)
        found += apart.values()
    return found


def _why_not_built(error: BaseException) -> str:
    """What stands against building a model here, or tracing its steps: operations of another framework, mostly."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    frames = [frame for one in chain for frame, _ in traceback.walk_tb(one.__traceback__)]
    where = next(filter(None, map(_part_of, reversed(frames))), "it")
    if any(str(frame.f_globals.get("__name__", "")).startswith("tensorflow.") for frame in frames):
        return f"{where} uses TensorFlow operations"
    return f"{where} cannot be built with Keras on JAX: {type(chain[-1]).__name__}: {_line(chain[-1])}"


def _part_of(frame: FrameType) -> str | None:
    """Which part of a model is at work in this frame, in words."""
    part = next((frame.f_locals.get(name) for name in frame.f_code.co_varnames), None)  # mostly called self
    if frame.f_code.co_name not in ("call", "__call__", "update_state", "result"):
        return None
    bases = {base.__name__ for base in type(part).__mro__}
    kind = next((words for base, words in PARTS.items() if base in bases), None)
    name = getattr(part, "name", None) or type(part).__name__
    return f"{kind} {name}" if kind is not None else None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
