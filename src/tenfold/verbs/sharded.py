"""`tenfold.train(how="sharded")`: a model of which no device holds the whole.

Keras models are divided among the devices of one process, by JAX; modules of PyTorch among processes: by FSDP2, by
cutting weights, or by layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tenfold.dispatch.using import choice
from tenfold.errors import BadCall, TasksFailed
from tenfold.fuse import settings as frameworks_settings
from tenfold.fuse.fit import Fit
from tenfold.nursery import used
from tenfold.training.keeper import Keeper
from tenfold.training.opening import of_keras
from tenfold.training.sharded_keras import KerasShards
from tenfold.training.sharding import MODEL, ROWS, Shape, Sharded, check_mesh
from tenfold.training.terms import Checkpointing
from tenfold.training.trained import Helped
from tenfold.verbs.call import Settings
from tenfold.verbs.lasting import lasting
from tenfold.verbs.launch import engine_faults
from tenfold.work.here import here


def train(
    fit: Fit,
    params: Mapping[str, Any],
    settings: Settings,
    shape: Shape,
    often: Checkpointing | None,
    precision: str | None,
) -> Sharded:
    """`settings.workers` is the number of parts."""
    engine = choice(settings.engine, None).engine
    faults = engine_faults(engine) + _faults(fit)
    if faults:
        raise BadCall("; ".join(faults))
    settings = replace(settings, engine=engine)
    try:
        return _train(fit, params, settings, shape, often, precision)
    except TasksFailed as error:
        if isinstance(error.__cause__, BadCall):  # seen only where the model was built
            raise error.__cause__ from None
        raise


def _train(
    fit: Fit,
    params: Mapping[str, Any],
    settings: Settings,
    shape: Shape,
    often: Checkpointing | None,
    precision: str | None,
) -> Sharded:
    count, frameworks = settings.workers or 1, used.members(fit)
    how = f"sharded by {shape.told(count)}" + (f", {precision}" if precision else "")
    if "torch" in frameworks and "keras" not in frameworks:
        if precision is not None and shape != Shape():
            raise BadCall(f"precision={precision!r}: not with mesh=, layout= or stages=")
        done = lasting(TorchShards(fit, params, shape, often, precision), settings, ("torch",), how=how)
    else:
        if precision is not None:
            raise BadCall(of_keras(precision))
        if shape.stages is not None:
            raise BadCall(
                f"stages={shape.stages}: of modules of PyTorch; a Keras model is divided with mesh= and layout="
            )
        whole = replace(settings, workers=1, cpus=settings.cpus * count, gpus=settings.gpus * count)
        task = KerasShards(fit, params, shape.mesh or (1, count), shape.layout, often)
        done = lasting(task, whole, (), how=how)
    found: Sharded = done.value
    fit.received(found.result)
    return replace(found, plan=done.plan, events=done.events, seconds=done.seconds)


class TorchShards:
    """The function of each worker."""

    def __init__(
        self,
        fit: Fit,
        params: Mapping[str, Any],
        shape: Shape,
        often: Checkpointing | None,
        precision: str | None,
    ) -> None:
        self._fit = fit
        self._params = params
        self._shape = shape
        self._often = often
        self._precision = precision

    def __call__(self, keeper: Keeper) -> Sharded | Helped:
        with frameworks_settings.applied(self._fit.settings):
            return self._train(keeper)

    def _train(self, keeper: Keeper) -> Sharded | Helped:
        from tenfold.training.sharded_torch import Shards

        member = self._fit.member(self._params, here())
        mesh, layout = self._shape.mesh, self._shape.layout
        part: Shards
        if self._shape.stages is not None:
            from tenfold.training.sharded_pipeline import Pipeline

            part = Pipeline(self._fit, member, self._shape.stages)
        elif layout is not None or (mesh is not None and mesh[1] > 1):
            from tenfold.training.sharded_tensor import Tensors

            part = Tensors(self._fit, member, self._shape)
        else:
            part = Shards(self._fit, member, self._precision)
        return part.train(keeper, self._often)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"fit": self._fit, "params": dict(self._params)}

    @property
    def __name__(self) -> str:
        return f"train({self._fit.__name__})"


def _faults(fit: Fit) -> list[str]:
    found = []
    if fit.callbacks:
        found.append('callbacks of Keras: not with how="sharded"; tenfold.EarlyStopping is')
    return found


def shape_faults(how: object, mesh: object, layout: object, stages: object, workers: object) -> list[str]:
    """What is wrong with what only "sharded" takes."""
    if how != "sharded":
        known = (("mesh", mesh), ("layout", layout), ("stages", stages))
        given = [f"{name}={value!r}" for name, value in known if value is not None]
        return [f'{", ".join(given)}: only with how="sharded"'] if given else []
    if workers is None:
        return ['workers=None: how="sharded" divides the model; say into how many parts, such as workers=2']
    found = check_mesh(mesh, workers) if isinstance(workers, int) else []
    return found + _layout_faults(layout) + _stage_faults(mesh, layout, stages, workers)


def _layout_faults(layout: object) -> list[str]:
    if layout is None:
        return []
    sound = isinstance(layout, Mapping) and all(
        isinstance(name, str) and isinstance(axes, Sequence) and all(axis in (None, ROWS, MODEL) for axis in axes)
        for name, axes in layout.items()
    )
    if not sound:
        return [f'layout={layout!r}: expected a dict of patterns, such as {{"dense.*kernel": (None, "model")}}']
    found = []
    for pattern in cast("Mapping[str, Any]", layout):
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(f"layout: {pattern!r} is no regular expression: {error}")
    return found


def _stage_faults(mesh: object, layout: object, stages: object, workers: object) -> list[str]:
    if stages is None:
        return []
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 2:
        return [f"stages={stages!r}: expected a whole number above 1"]
    found = [] if mesh is None and layout is None else ["stages=: not with mesh= or layout=, which cut layers instead"]
    if isinstance(workers, int) and workers % stages:
        found.append(f"stages={stages}: workers={workers} cannot be divided into pipelines of {stages}")
    return found
