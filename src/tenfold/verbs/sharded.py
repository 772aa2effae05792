"""`tenfold.train(how="sharded")`: a model of which no device holds the whole.

Keras models are divided among the devices of one process, by JAX; modules of PyTorch among processes: by FSDP2, by
cutting weights, or by layers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tenfold.dispatch.using import choice
from tenfold.engines import Engine
from tenfold.errors import BadCall, TasksFailed
from tenfold.fuse.fit import Fit
from tenfold.nursery import used
from tenfold.training.sharded_keras import KerasShards
from tenfold.training.sharding import Shape, Sharded, check_mesh
from tenfold.verbs.call import Settings
from tenfold.verbs.launch import engine_faults, together

DEVICES = "--xla_force_host_platform_device_count"


def train(fit: Fit, params: Mapping[str, Any], settings: Settings, shape: Shape) -> Sharded:
    """`settings.workers` is the number of parts."""
    engine = choice(settings.engine, None).engine
    faults = engine_faults(engine) + _faults(fit, settings)
    if faults:
        raise BadCall("; ".join(faults))
    settings = replace(settings, engine=engine, retries=0)
    try:
        return _train(fit, params, settings, engine, shape)
    except TasksFailed as error:
        if isinstance(error.__cause__, BadCall):  # seen only where the model was built
            raise error.__cause__ from None
        raise


def _train(fit: Fit, params: Mapping[str, Any], settings: Settings, engine: Engine, shape: Shape) -> Sharded:
    count, frameworks = settings.workers or 1, used.members(fit)
    if "torch" in frameworks and "keras" not in frameworks:
        done = together(TorchShards(fit, params, shape), {}, settings, ("torch",))
    else:
        if shape.stages is not None:
            raise BadCall(
                f"stages={shape.stages}: of modules of PyTorch; a Keras model is divided with mesh= and layout="
            )
        whole = replace(settings, workers=1, cpus=settings.cpus * count, gpus=settings.gpus * count)
        task = KerasShards(fit, params, shape.mesh or (1, count), shape.layout)
        done = together(task, {}, whole, (), {} if settings.gpus else _host_devices(count))
    found: Sharded = done.values[0]
    found.result.build = fit.build
    return replace(found, plan=done.plan, seconds=done.seconds)


class TorchShards:
    """The function of each worker."""

    def __init__(self, fit: Fit, params: Mapping[str, Any], shape: Shape) -> None:
        self._fit = fit
        self._params = params
        self._shape = shape

    def __call__(self) -> Sharded | None:
        mesh, layout = self._shape.mesh, self._shape.layout
        if self._shape.stages is not None:
            from tenfold.training.sharded_pipeline import train
        elif layout is not None or (mesh is not None and mesh[1] > 1):
            from tenfold.training.sharded_tensor import train
        else:
            from tenfold.training.sharded_torch import train
        return train(self._fit, self._params, self._shape)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"fit": self._fit, "params": dict(self._params)}


def _host_devices(count: int) -> dict[str, str]:
    """Have JAX see the cores of a machine as so many devices."""
    given = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES)]
    return {"XLA_FLAGS": " ".join([*given, f"{DEVICES}={count}"])}


def _faults(fit: Fit, settings: Settings) -> list[str]:
    found = []
    if settings.run is not None:
        found.append(f'run={settings.run!r}: nothing is kept with how="sharded"; save() writes the model')
    if fit.callbacks:
        found.append('callbacks of Keras: not with how="sharded"; tenfold.EarlyStopping is')
    if fit.outputs:
        found.append('Fit(outputs=True): not with how="sharded"')
    return found


def shape_faults(how: object, mesh: object, layout: object, stages: object, workers: object) -> list[str]:
    """What is wrong with what only "sharded" takes."""
    if how != "sharded":
        known = (("mesh", mesh), ("layout", layout), ("stages", stages))
        given = [f"{name}={value!r}" for name, value in known if value is not None]
        return [f'{", ".join(given)}: only with how="sharded"'] if given else []
    found = check_mesh(mesh, workers) if isinstance(workers, int) else []
    patterns = isinstance(layout, Mapping) and all(
        isinstance(name, str) and isinstance(axes, Sequence) and set(axes) <= {None, "rows", "model"}
        for name, axes in layout.items()
    )
    if layout is not None and not patterns:
        found.append(f'layout={layout!r}: expected a dict of patterns, such as {{"dense.*kernel": (None, "model")}}')
    return found + _stage_faults(mesh, layout, stages, workers)


def _stage_faults(mesh: object, layout: object, stages: object, workers: object) -> list[str]:
    if stages is None:
        return []
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 2:
        return [f"stages={stages!r}: expected a whole number above 1"]
    found = [] if mesh is None and layout is None else ["stages=: not with mesh= or layout=, which cut layers instead"]
    if isinstance(workers, int) and workers % stages:
        found.append(f"stages={stages}: workers={workers} cannot be divided into pipelines of {stages}")
    return found
