"""`tenfold.launch`: a training loop of one's own, in several processes that form a group."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tenfold import engines
from tenfold.dispatch.feed import Feed
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.results import Results
from tenfold.dispatch.using import choice
from tenfold.engines import Engine
from tenfold.errors import BadCall, TaskError, TaskOutOfMemory, TasksFailed, TaskTimedOut
from tenfold.nursery import used
from tenfold.training import groups as known
from tenfold.training.launched import Launched
from tenfold.training.parts import Parts
from tenfold.training.rendezvous import Blame, Rendezvous
from tenfold.verbs.call import Call, Settings, lazy_faults, opened, sound


def launch(
    function: Callable[..., Any],
    params: Mapping[str, Any] | None = None,
    *,
    workers: int,
    groups: Sequence[str] | None = None,
    cpus: float = 1,
    gpus: float = 0,
    memory: int | str | None = None,
    timeout: float | None = None,
    seed: int = 0,
    engine: object = None,
    progress: bool | None = None,
) -> list[Any]:
    """Call `function(**params)` in as many processes as there are workers, all at once, and return their results.

    function   a training loop; `tenfold.here().rank` says which worker it is in, `.workers` how many there are
    params     keyword arguments, the same for all
    workers    how many: all of them run, or none
    groups     "torch", "jax", or both: formed before the function is called. Where it is not given, those of the
               frameworks that the function uses. TF_CONFIG is always set, for TensorFlow
    timeout    seconds that they may take

    The others are those of `tenfold.map`. When one worker fails, all are ended, and the error is that of the one that
    failed first.
    """
    settings = Settings(cpus, gpus, memory, workers, None, 0, timeout, seed, engine, None, False, progress)
    faults = _faults(function, params, workers, groups) + settings.faults()
    choosing = sound(faults, choice, engine, None)
    faults += [] if choosing is None else engine_faults(choosing.engine)
    if faults or choosing is None:
        raise BadCall("; ".join(faults))
    frameworks = used.members(function) if groups is None else tuple(groups)
    return together(function, params or {}, replace(settings, engine=choosing.engine), frameworks).values


@dataclass(frozen=True, slots=True)
class Together:
    """What workers have done together."""

    values: list[Any]
    """What each has returned, in the order of ranks."""
    plan: str
    """Where, and why so."""
    seconds: float
    """How long it took."""


def together(
    function: Callable[..., Any],
    params: Mapping[str, Any],
    settings: Settings,
    frameworks: Sequence[str],
) -> Together:
    """Run it on an engine that has processes."""
    count, engine = settings.workers or 1, cast("Engine", settings.engine)
    isolates = engine.abilities.isolates
    settings = replace(settings, isolate=True if isolates else None)
    task = Launched(function, params, frameworks, shares_process=not isolates)
    with opened("launch", task, settings, total=count, on_error="stop", parts={}) as call:
        call.check_all_at_once(count)
        blame = one_group(call, task, count).blame
    results = Results(call.journal, count, seconds=call.watch.seconds, workers=count)
    raise_failure(results, blame)
    return Together(list(results), str(call.plan), call.watch.seconds)


def one_group(call: Call, task: Launched, count: int, parts: Parts | None = None) -> Rendezvous:
    """Every worker's part, once. What is returned knows who failed first, if one did."""
    call = replace(
        call,
        pace=Pace(call.engine.abilities.seconds_per_batch, one_by_one=True),
        policy=replace(call.policy, forgiven=0),  # one that comes again finds no group
        job=call.job if call.engine.abilities.isolates else replace(call.job, frameworks=()),  # its child has them
    )
    everywhere = any(seat.machine for seat in call.plan.seats)
    with contextlib.closing(Rendezvous(count, everywhere=everywhere, parts=parts)) as rendezvous:
        directed = task.directed(rendezvous.ticket)
        call.run(lambda: call.crew(directed, call.job), Feed(range(count), call.journal, resumable=False))
    return rendezvous


def raise_failure(results: Results, blame: Blame | None) -> None:
    """What the one that failed first has to say, if one did."""
    failures = results.failures
    if not failures:
        return
    known = told(blame, failures) or Blame(failures[0].index, summary(failures[0]))
    first = next((error for error in failures if error.index == known.rank), failures[0])
    others = "; the others were ended with it" if len(results) > 1 else ""
    text = f"worker {known.rank} of {len(results)} failed first: {known.text}{others}\n\n{first}"
    raise TasksFailed(text, results) from first.__cause__


def told(blame: Blame | None, failures: Sequence[TaskError]) -> Blame | None:
    """Who failed first. Of one that the engine has ended, its connection did not say why.

    Where it has ended several, the call is over with the first that it tells of: the others are only seen to be gone.
    """
    if blame is None:
        return None
    unexplained = blame.lost and all(error.index != blame.rank for error in failures)
    for error in failures:
        ended = isinstance(error, TaskTimedOut | TaskOutOfMemory)
        if ended and (error.index == blame.rank or unexplained):
            return Blame(error.index, summary(error), lost=not isinstance(error, TaskTimedOut))  # it would again
    return blame


def summary(error: TaskError) -> str:
    """Of what became of a worker."""
    return "" if error.failure is None else error.failure.summary


def _faults(function: object, params: object, workers: object, groups: object) -> list[str]:
    faults = []
    if params is not None and not (isinstance(params, Mapping) and all(isinstance(name, str) for name in params)):
        faults.append(f"params={params!r}: expected a dict of keyword arguments, such as dict(lr=1e-3)")
    elif not callable(function):
        faults.append(f"function={function!r}: expected a function")
    elif lazy := lazy_faults("function", function):
        faults += lazy
    else:
        faults += _binding_faults(function, dict(params or {}))
    if workers is None:
        faults.append("workers=None: expected a whole number above 0")
    unknown = isinstance(groups, str) or not isinstance(groups, Sequence) or not set(groups) <= set(known.NAMES)
    if groups is not None and unknown:
        faults.append(f"groups={groups!r}: expected a list of {' and '.join(map(repr, known.NAMES))}, or [] for none")
    return faults


def _binding_faults(function: Callable[..., Any], params: dict[str, Any]) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return []
    try:
        signature.bind(**params)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        given = ", ".join(f"{key}=..." for key in params)
        return [
            f"function={name}{signature} cannot be called as {name}({given}): {error}; give its arguments with "
            "params=dict(...), and ask tenfold.here().rank and .workers in it for where it is"
        ]
    return []


def engine_faults(engine: Engine) -> list[str]:
    if engine.abilities.parallel and engine.abilities.processes:
        return []
    return [
        f"engine={engines.name_of(engine)!r}: the workers of a launch are processes that run at once, and it has none; "
        'engine="local" has'
    ]
