"""`tenfold.map`: any function over any items, on every core and GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sized
from dataclasses import replace
from typing import Any, get_args

from tenfold.dispatch.feed import Feed
from tenfold.dispatch.loop import OnError
from tenfold.dispatch.results import Results
from tenfold.errors import BadCall, TasksFailed
from tenfold.verbs import grouped
from tenfold.verbs.call import Settings, lazy_faults, opened


def map(  # noqa: A001
    task: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    cpus: float = 1,
    gpus: float = 0,
    memory: int | str | None = None,
    workers: int | None = None,
    isolate: bool | None = None,
    retries: int = 0,
    timeout: float | None = None,
    on_error: OnError = "raise",
    seed: int = 0,
    engine: object = None,
    run: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Results:
    """Call `task(item)` for every item, in parallel, and return the results in item order.

    cpus, gpus, memory   what one task needs; `gpus=0.5` puts two tasks on a GPU, `memory="2GB"` stops a task above it
    workers              how many tasks at once; as many as fit where it is not given
    isolate              True gives each task a process of its own; by default only tasks on a GPU have one
    retries, timeout     how often a failed task is tried again, and the seconds that an attempt may take
    on_error             "raise" finishes all others, then raises `TasksFailed`; "stop" raises at the first failure;
                         "collect" never raises: the place of a failed task holds its error
    seed                 gives every task its own random numbers, the same on every engine
    engine               where: "local", "joblib", "serial", "dask", "ray", the address of a cluster, or a client of one
    run                  a folder that keeps what is finished; the same call with it continues where it was
    fresh                start the run in that folder anew
    progress             False shows nothing
    """
    settings = Settings(cpus, gpus, memory, workers, isolate, retries, timeout, seed, engine, run, fresh, progress)
    _check(task, items, on_error, settings)
    results = over(task, items, settings, on_error=on_error)
    raise_failures(results, on_error)
    return results


def over(
    task: Callable[[Any], Any],
    items: Iterable[Any],
    settings: Settings,
    *,
    on_error: OnError,
    feed_of: Callable[..., Feed] = Feed,
    verb: str = "map",
    even: bool = False,
    shelved: bool = False,
) -> Results:
    """Every task, whatever becomes of it; `feed_of` says in which order they go, `verb` whose they are.

    `even`, `shelved`: as `verbs/call.opened` has them.
    """
    total = len(items) if isinstance(items, Sized) else None
    about = {"even": even, "shelved": shelved}
    with opened(verb, task, settings, total=total, on_error=on_error, parts={}, **about) as call:
        if grouped.is_grouped(task):
            feed = grouped.run(task, list(items), call)
        else:
            feed = feed_of(items, call.journal, resumable=settings.run is not None)
            left = None if total is None else total - call.journal.counts()[0]
            call.run(lambda: call.crew(task, replace(call.job, tasks=left)), feed)
        if feed.exhausted:
            call.journal.set_meta(count=str(feed.drawn))
    return Results(
        call.journal,
        feed.drawn if total is None else total,
        seconds=call.watch.seconds,
        workers=len(call.plan.seats),
        received=task.received if grouped.is_grouped(task) else None,
    )


def _check(task: object, items: object, on_error: object, settings: Settings) -> None:
    faults = []
    if not callable(task):
        faults.append(f"task={task!r}: expected a function of one item")
    faults += lazy_faults("task", task)
    if not isinstance(items, Iterable):
        such = items if isinstance(items, int) else 10
        faults.append(f"items={items!r}: expected an iterable, such as range({such})")
    if on_error not in get_args(OnError):
        faults.append(f"on_error={on_error!r}: expected one of {', '.join(repr(value) for value in get_args(OnError))}")
    faults += settings.faults()
    if faults:
        raise BadCall("; ".join(faults))


def raise_failures(results: Results, on_error: OnError) -> None:
    failures = results.failures if on_error != "collect" else []
    if not failures:
        return
    shown = "\n\n".join(str(error) for error in failures[:3])
    more = f"\n\n... and {len(failures) - 3} more" if len(failures) > 3 else ""
    text = f"{len(failures)} of {len(results)} tasks failed; the others are in this error's .results\n\n{shown}{more}"
    raise TasksFailed(text, results) from failures[0].__cause__
