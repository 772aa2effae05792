"""`tenfold.train`: one model on many workers."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from tenfold import machine
from tenfold.dispatch.feed import Feed
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.results import Results
from tenfold.errors import BadCall
from tenfold.fuse.fit import Fit
from tenfold.training.checkpoint import Checkpoint
from tenfold.training.roll import Roll
from tenfold.training.sharding import Shape
from tenfold.training.terms import Checkpointing, Terms
from tenfold.training.trained import Trained
from tenfold.training.wires import Ticket
from tenfold.training.worker import Worker
from tenfold.verbs import sharded
from tenfold.verbs.call import Call, Settings, opened
from tenfold.verbs.map import raise_failures

How = Literal["synchronous", "asynchronous", "sharded"]
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
WITH_A_RUN = Checkpointing(seconds=60.0)


def train(
    fit: Fit,
    params: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    how: How = "synchronous",
    checkpoint: int | str | None = None,
    accumulate: int = 1,
    clip: float | None = None,
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
    workers         how many processes; one that uses all cores where it is not given, which is fastest on one machine
    how             "synchronous": every batch is divided among the workers, and the result is that of one.
                    "asynchronous": every worker trains on batches of its own, and adds what it learns to weights that
                    all share, without waiting.
                    "sharded": every worker holds a part of the model, for one that is too large for a device
    checkpoint      how often the state is written, for a call that is killed: steps, or a time such as "5min"; every
                    minute where there is a `run`
    accumulate      pieces in which a worker computes its share of a batch, to save memory
    clip            the largest norm of the gradient
    staleness       of "asynchronous": steps that a worker may be ahead of another; 0 is "synchronous"
    average_every   of "asynchronous": steps that a worker takes by itself before the weights are averaged
    mesh, layout    of "sharded": parts of (rows, model); how weights are cut, by patterns of their paths. Of PyTorch,
                    this is tensor parallelism
    stages          of "sharded", with a Sequential of PyTorch: parts of a pipeline, each with some of the layers
    cpus            cores for each worker; divided evenly where it is not given
    retries         how often a worker that was lost is started again; the others go on meanwhile

    The others are those of `tenfold.map`.
    """
    settings = Settings(
        _cpus(cpus, workers), gpus, memory, workers or 1, None, retries, timeout, seed, engine, run, fresh, progress
    )
    faults = settings.faults() + _faults(fit, params, workers, how)
    faults += _number_faults(accumulate, clip, staleness, average_every, how)
    faults += sharded.shape_faults(how, mesh, layout, stages, settings.workers)
    often = _often(checkpoint, faults, keeps=run is not None)
    if faults:
        raise BadCall("; ".join(faults))
    if staleness == 0:
        how, staleness = "synchronous", None
    given = {"seed": seed, **(params or {})}
    fit.check([given])
    if how == "sharded":
        return sharded.train(fit, given, settings, Shape(mesh, layout, stages))
    count = settings.workers or 1
    terms = Terms(fit, given, Ticket("", (), 0, b"", count), how, often, accumulate, clip, staleness, average_every)
    with opened("train", Worker(terms), settings, total=count, on_error="collect", parts={}) as call:
        call.check_all_at_once(count)
        roll = _run(call, terms, resumable=run is not None)
    results = Results(call.journal, count, seconds=call.watch.seconds, workers=count)
    found = [value for value in (roll.result, *results) if isinstance(value, Trained)]
    if not found:
        raise_failures(results, "raise")
    found[0].result.build = fit.build
    return replace(found[0], plan=str(call.plan), events=tuple(roll.events), seconds=call.watch.seconds)


def _run(call: Call, terms: Terms, *, resumable: bool) -> Roll:
    """All workers, to the end; the roll knows what became of them."""
    count = terms.ticket.count
    # One task a worker, or they would wait for each other for ever. What one raises, the others raise as well.
    pace = Pace(call.engine.abilities.seconds_per_batch, one_by_one=True)
    call = replace(call, pace=pace, policy=replace(call.policy, raised_again=False))
    folder = call.journal.folder
    checkpoint = Checkpoint(None if folder is None else folder.path / "train.checkpoint")
    everywhere = any(seat.machine for seat in call.plan.seats)
    with contextlib.closing(Roll(count, checkpoint, everywhere=everywhere)) as roll:
        feed = Feed(range(count), call.journal, resumable=resumable)
        task = Worker(replace(terms, ticket=roll.ticket))
        call.run(lambda: call.crew(task, call.job), feed)
    before = json.loads(call.journal.meta("events") or "[]")
    call.journal.set_meta(count=str(count), events=json.dumps([*before, *roll.events]))
    return roll


def _cpus(cpus: float | None, workers: int | None) -> float:
    if cpus is not None:
        return cpus
    whole = machine.look().cpus
    return whole if workers in (None, 1) or not isinstance(workers, int) or workers < 1 else whole / workers


def _faults(fit: object, params: object, workers: object, how: object) -> list[str]:
    found = []
    if not isinstance(fit, Fit):
        found.append(f"fit={fit!r}: expected a tenfold.Fit")
    if params is not None and not isinstance(params, Mapping):
        found.append(f"params={params!r}: expected a dict of parameters, such as dict(lr=1e-3)")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        found.append(f"workers={workers!r}: expected a whole number above 0")
    if how not in get_args(How):
        found.append(f"how={how!r}: expected one of {', '.join(map(repr, get_args(How)))}")
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
    if how != "asynchronous" and (staleness or every):
        found.append('staleness= and average_every=: only with how="asynchronous"')
    if staleness and every:
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
