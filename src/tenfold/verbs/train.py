"""`tenfold.train`: one model on many workers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy

from tenfold import engines, machine
from tenfold.dispatch.using import choice
from tenfold.errors import BadCall
from tenfold.fuse.fit import Fit
from tenfold.nursery import used
from tenfold.plan.workers import share
from tenfold.training.exchange import OF_TORCH, only_torch
from tenfold.training.opening import keras_backend, of_keras, on_torch, one_device
from tenfold.training.sharding import Shape
from tenfold.training.terms import Checkpointing, Terms
from tenfold.training.trained import Trained
from tenfold.training.wires import Ticket
from tenfold.verbs import chosen, heat, sharded, united
from tenfold.verbs.call import Settings, sound

How = Literal["synchronous", "asynchronous", "sharded"]
Precision = Literal["bfloat16"]
Way = Literal["ring", "gloo", "nccl", "framework"]
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
WITH_A_RUN = Checkpointing(seconds=60.0)


def train(
    fit: Fit,
    params: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    devices: int | None = None,
    how: How = "synchronous",
    checkpoint: int | str | None = None,
    accumulate: int = 1,
    clip: float | None = None,
    precision: Precision | None = None,
    exchange: Way | None = None,
    staleness: int | None = None,
    average_every: int | None = None,
    mesh: tuple[int, int] | None = None,
    layout: Mapping[str, Any] | None = None,
    stages: int | None = None,
    cpus: float | None = None,
    gpus: float = 0,
    memory: int | str | None = None,
    retries: int = 2,
    timeout: float | None = None,
    seed: int = 0,
    engine: object = None,
    run: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Trained:
    """Train one model, on several workers at once, and return it.

    fit             what `tenfold.Fit` holds: how the model is built, its data, epochs and batch size
    params          what `build` is called with, such as `study.best.params`
    workers         how many processes. Where it is not given, "synchronous" times the first steps, and takes the
                    fastest: one with all cores or fewer, several that share them, or one with several devices; the
                    others take one
    devices         of "synchronous", with Keras on JAX or TensorFlow: devices of each worker's process, among which it
                    divides its batches; its GPUs, with as many gpus=, or else parts of its cores. One worker, where
                    workers is not given; with gpus=n and without devices, n
    how             "synchronous": every batch is divided among the workers, and the result is that of one.
                    "asynchronous": every worker trains on batches of its own, and adds what it learns to weights that
                    all share, without waiting.
                    "sharded": every worker holds a part of the model, for one that is too large for a device
    checkpoint      how often the state is written, for a call that is killed: steps, or a time such as "5min"; every
                    minute where there is a `run`
    accumulate      pieces in which a worker computes its share of a batch, to save memory
    clip            the largest norm of the gradient
    precision       "bfloat16": operations of a module of PyTorch that bear it are computed so, twice as fast on devices
                    that have it; weights, gradients and the optimizer stay float32. Keras has it in its layers
    exchange        how "synchronous" workers add up gradients. Where it is not given: in shared memory on one machine,
                    in a "ring" of sockets between several, by "nccl" where PyTorch has a GPU for each. "gloo" is
                    PyTorch's own between CPUs. "framework" is what Keras on TensorFlow or JAX has itself: the devices
                    of all workers are one set, and when one is lost, all start again from the last checkpoint
    staleness       of "asynchronous": steps that a worker may be ahead of another; 0 is "synchronous"
    average_every   of "asynchronous": steps that a worker takes by itself before the weights are averaged
    mesh, layout    of "sharded": parts of (rows, model); how weights are cut, by patterns of their paths. Of PyTorch,
                    this is tensor parallelism
    stages          of "sharded", with a Sequential of PyTorch: parts of a pipeline, each with some of the layers
    cpus            cores for each worker; divided evenly where it is not given
    retries         how often a worker that was lost is started again, and once more where it was killed from
                    outside; the others go on meanwhile. Of "sharded", how often all start again, from the last
                    checkpoint
    timeout         seconds that a worker may take in all; one that takes longer is not started again

    The others are those of `tenfold.map`.
    """
    workers, devices, stages, accumulate = map(_plain, (workers, devices, stages, accumulate))
    clip, staleness, average_every = map(_plain, (clip, staleness, average_every))
    each, many = _cpus(cpus, workers), 1 if workers is None else workers
    settings = Settings(each, gpus, memory, many, None, retries, timeout, seed, engine, run, fresh, progress)
    faults = settings.faults() + _faults(fit, params, how)
    faults += _number_faults(accumulate, clip, staleness, average_every, how)
    faults += _precision_faults(fit, precision) + _exchange_faults(fit, exchange, how, gpus)
    if exchange == united.FRAMEWORK:
        faults += united.faults(fit, workers, devices)
    faults += _device_faults(fit, devices, how, gpus, engine)
    faults += sharded.shape_faults(how, mesh, layout, stages, workers)
    often = _often(_plain(checkpoint), faults, keeps=run is not None)
    if faults:
        raise BadCall("; ".join(faults))
    if staleness == 0:
        how, staleness = "synchronous", None
    given = {"seed": seed, **(params or {})}
    fit.check([given])
    if how == "sharded":
        return sharded.train(fit, given, settings, Shape(mesh, layout, stages), often, precision)
    numbers = accumulate, clip, staleness, average_every
    terms = Terms(
        fit,
        given,
        Ticket("", (), 0, b"", 1),
        how,
        often,
        *numbers,
        precision=precision,
        devices=devices,
        exchange=exchange,
    )
    if exchange == united.FRAMEWORK:
        return united.train(terms, settings)
    if workers is None and devices is None and how == "synchronous":
        return chosen.train(terms, settings, cpus)
    trained = heat.train(terms, settings).trained
    assert trained is not None  # nobody sends workers away whose number was given
    if devices is not None and devices > 1:
        return replace(trained, plan=f"{trained.plan}\n{devices} devices in each process, as asked")
    return trained


def _plain(value: Any) -> Any:
    """Numbers of NumPy's are as good as Python's."""
    return value.item() if isinstance(value, numpy.number) else value


def _cpus(cpus: float | None, workers: int | None) -> float:
    if cpus is not None:
        return cpus
    whole = machine.look().cpus
    return share(whole, workers if isinstance(workers, int) and workers > 0 else 1)


def _faults(fit: object, params: object, how: object) -> list[str]:
    found = []
    if not isinstance(fit, Fit):
        found.append(f"fit={fit!r}: expected a tenfold.Fit")
    if params is not None and not isinstance(params, Mapping):
        found.append(f"params={params!r}: expected a dict of parameters, such as dict(lr=1e-3)")
    if isinstance(fit, Fit) and fit.outputs:
        found.append("Fit(outputs=True): of tenfold.map; tenfold.predict(trained, x) gives what this model says")
    if how not in get_args(How):
        found.append(f"how={how!r}: expected one of {', '.join(map(repr, get_args(How)))}")
    return found


def _precision_faults(fit: object, precision: object) -> list[str]:
    if precision is None:
        return []
    if precision not in get_args(Precision):
        return [
            f"precision={precision!r}: expected {' or '.join(map(repr, get_args(Precision)))}, whose range is that of "
            "float32, so that no loss must be scaled"
        ]
    return [of_keras(str(precision))] if isinstance(fit, Fit) and "keras" in used.members(fit) else []


def _device_faults(fit: object, devices: object, how: object, gpus: object, engine: object) -> list[str]:
    if devices is None:
        return []
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        return [f"devices={devices!r}: expected a whole number above 0"]
    found = []
    if how != "synchronous":
        found.append(f'devices={devices}: only with how="synchronous"; how={how!r} divides by workers=')
    if gpus and gpus != devices:
        found.append(f"devices={devices}, gpus={gpus}: each device of a worker is one of its GPUs; give gpus={devices}")
    if devices > 1 and isinstance(fit, Fit) and on_torch(fit):
        found.append(one_device(devices))
    chosen = sound(found, choice, engine, None)
    if devices > 1 and chosen is not None and not chosen.engine.abilities.processes:
        name = engines.name_of(chosen.engine)
        found.append(f"devices={devices}, engine={name!r}: a process has its devices from its start, and this is yours")
    return found


def _exchange_faults(fit: object, exchange: object, how: object, gpus: object) -> list[str]:
    if exchange is None:
        return []
    if exchange not in get_args(Way):
        return [f"exchange={exchange!r}: expected one of {', '.join(map(repr, get_args(Way)))}, or None"]
    found = []
    if how != "synchronous":
        found.append(f'exchange={exchange!r}: only with how="synchronous"')
    if exchange in OF_TORCH and isinstance(fit, Fit) and "keras" in used.members(fit):
        backend = keras_backend()
        if backend not in ("torch", None):  # where it is not known here, workers will say it
            found.append(f"exchange={exchange!r} and Keras on {backend}: {only_torch()}")
    if exchange == "nccl" and not (isinstance(gpus, int | float) and gpus >= 1):
        found.append(f"exchange='nccl' and gpus={gpus!r}: it is for workers that have a GPU each; give gpus=1")
    return found


def _number_faults(
    accumulate: object, clip: object, staleness: object, average_every: object, how: object
) -> list[str]:
    found = []
    if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
        found.append(f"accumulate={accumulate!r}: expected a whole number above 0")
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, int | float) or not clip > 0):
        found.append(f"clip={clip!r}: expected a number above 0")
    if staleness is not None and (isinstance(staleness, bool) or not isinstance(staleness, int) or staleness < 0):
        found.append(f"staleness={staleness!r}: expected a whole number, 0 or above")
    every = average_every
    if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        found.append(f"average_every={every!r}: expected a whole number above 0")
    if how != "asynchronous" and (staleness is not None or every is not None):
        found.append('staleness= and average_every=: only with how="asynchronous"')
    if staleness is not None and every is not None:
        found.append("staleness= and average_every=: give one of them")
    if how in ("asynchronous", "sharded") and (accumulate != 1 or clip is not None):
        found.append('accumulate= and clip=: only with how="synchronous"')
    return found


def _often(checkpoint: object, faults: list[str], *, keeps: bool) -> Checkpointing | None:
    if checkpoint is None:
        return WITH_A_RUN if keeps else None
    if not keeps:
        faults.append(f"checkpoint={checkpoint!r}: there is nowhere to write it without run=")
    if isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint > 0:
        return Checkpointing(steps=checkpoint)
    if isinstance(checkpoint, str):
        for unit, seconds in sorted(UNITS.items(), key=lambda pair: -len(pair[0])):
            number = checkpoint.removesuffix(unit)
            with contextlib.suppress(ValueError):
                if number != checkpoint and float(number) > 0:
                    return Checkpointing(seconds=float(number) * seconds)
    faults.append(f'checkpoint={checkpoint!r}: expected a number of steps, or a time such as "30s", "5min", "1h"')
    return None
