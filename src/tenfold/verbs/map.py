"""`tenfold.map`: any function over any items, on every core and GPU."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tenfold import engines
from tenfold.dispatch import progress as progresses
from tenfold.dispatch.feed import Feed
from tenfold.dispatch.loop import Dispatch, OnError, Policy
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.results import Results
from tenfold.dispatch.using import choice
from tenfold.engines import Engine
from tenfold.errors import BadCall, RunDiffers, TasksFailed
from tenfold.journal import fingerprint
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal
from tenfold.nursery import used
from tenfold.plan.choose import Plan, choose
from tenfold.plan.needs import needs
from tenfold.verbs import grouped
from tenfold.work.run import Job


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
    _check(task, items, retries, on_error, seed, run)
    timeout = None if timeout == math.inf else timeout
    chosen = choice(engine, workers)
    abilities = chosen.engine.abilities
    plan = choose(
        chosen.engine.machines(),
        needs(cpus, gpus, memory),
        abilities,
        workers=chosen.workers,
        isolate=isolate,
        timeout=timeout,
        first_core=os.getpid(),
    )
    total = len(items) if isinstance(items, Sized) else None
    policy = Policy(retries, timeout if abilities.stops == "kill" else None, on_error)
    pace = Pace(abilities.seconds_per_batch, one_by_one=plan.isolate)
    with _journal(run, fresh=fresh) as journal, _tasks_folder(journal) as tasks:
        _recognise(journal, task, seed, total)
        journal.begin_session({"engine": engines.name_of(chosen.engine), "workers": len(plan.seats), "plan": str(plan)})
        limit = timeout if abilities.stops in ("alarm", "there") else None
        alone = abilities.processes or not abilities.parallel
        job = Job(seed, str(tasks), journal.folder is None, used.members(task), alone, limit)
        watch = progresses.watch(progress, total, already=journal.counts()[0])
        call = _Call(chosen.engine, plan, journal, pace, policy, watch)
        with contextlib.closing(watch):
            if grouped.is_grouped(task):
                feed = grouped.run(task, list(items), plan, job, journal, call.run)
            else:
                feed = Feed(items, journal, resumable=run is not None)
                call.run(task, job, feed)
        if feed.exhausted:
            journal.set_meta(count=str(feed.drawn))
        journal.end_session()
        results = Results(
            journal,
            feed.drawn if total is None else total,
            seconds=watch.seconds,
            workers=len(plan.seats),
            received=task.received if grouped.is_grouped(task) else None,
        )
    _raise(results, on_error)
    return results


@dataclass(frozen=True, slots=True)
class _Call:
    """What the passes of one call share; most calls have one."""

    engine: Engine
    """Where tasks run."""
    plan: Plan
    """Who gets which seat."""
    journal: Journal
    """What is kept."""
    pace: Pace
    """How many tasks go together."""
    policy: Policy
    """What is done about failures."""
    watch: progresses.Watch
    """The progress."""

    def run(self, task: Callable[[Any], Any], job: Job, feed: Feed) -> dict[int, str]:
        """Every task of the feed; returns those that were declined, with the reason."""
        if feed.is_empty():
            return {}
        crew = self.engine.open(task, job, self.plan)
        try:
            dispatch = Dispatch(crew, feed, self.journal, self.pace, self.policy, self.watch)
            dispatch.run()
        except KeyboardInterrupt as interrupt:
            if self.journal.folder is not None:
                where = str(self.journal.folder.path)
                interrupt.add_note(f"{self.watch.line()}; the same call continues the run in {where!r}")
            raise
        finally:
            crew.close()
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.journal.commit()
        return dispatch.declined


def _check(task: object, items: object, retries: object, on_error: object, seed: object, run: object) -> None:
    faults = []
    if not callable(task):
        faults.append(f"task={task!r}: expected a function of one item")
    if not isinstance(items, Iterable):
        faults.append(f"items={items!r}: expected an iterable, such as range({items!r})")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        faults.append(f"retries={retries!r}: expected a whole number, 0 or above")
    if on_error not in get_args(OnError):
        faults.append(f"on_error={on_error!r}: expected one of {', '.join(repr(value) for value in get_args(OnError))}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        faults.append(f"seed={seed!r}: expected a whole number, 0 or above")
    if run is not None and not (isinstance(run, str | os.PathLike) and os.fspath(run) and "\0" not in str(run)):
        faults.append(f"run={run!r}: expected the name of a folder")
    if faults:
        raise BadCall("; ".join(faults))


@contextlib.contextmanager
def _journal(run: str | os.PathLike[str] | None, *, fresh: bool) -> Iterator[Journal]:
    """The journal of the call; locked while it is written, and left open for the results to read."""
    if run is None:
        if fresh:
            raise BadCall("fresh=True: there is nothing to start anew without run=")
        yield Journal(None)
        return
    folder = Folder(run)
    folder.prepare()
    with folder.locked():
        if fresh and is_run(folder.path):
            _clear(folder)
        journal = Journal(folder)
        try:
            yield journal
        except BaseException:
            journal.close()
            raise


def _clear(folder: Folder) -> None:
    for path in (folder.values, folder.tasks):
        shutil.rmtree(path, ignore_errors=True)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{folder.journal}{suffix}").unlink(missing_ok=True)
    folder.prepare()


@contextlib.contextmanager
def _tasks_folder(journal: Journal) -> Iterator[Path]:
    """Where tasks keep files: with the run, or in a temporary folder that goes with the call."""
    if journal.folder is not None:
        yield journal.folder.tasks
        return
    # The name alone: the folder is made by the first task that wants one.
    path = Path(tempfile.gettempdir()) / f"tenfold-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _recognise(journal: Journal, task: Callable[[Any], Any], seed: int, total: int | None) -> None:
    """Refuse a run that belongs to another call, with what differs."""
    if journal.folder is None:
        return
    now = fingerprint.of_function(task) | {"seed": str(seed), "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    before = journal.meta("fingerprint")
    faults = fingerprint.differences(json.loads(before), now) if before else []
    count = journal.meta("count")
    if count and total is not None and int(count) != total:
        faults.append(f"there were {count} items and are now {total}")
    if faults:
        raise RunDiffers(
            f"run={str(journal.folder.path)!r} differs from this call: {'; '.join(faults)}. "
            "Give run= another folder, or fresh=True to start this one anew"
        )
    journal.set_meta(verb="map", function=fingerprint.name_of(task), fingerprint=json.dumps(now))
    if total is not None:
        journal.set_meta(count=str(total))


def _raise(results: Results, on_error: OnError) -> None:
    failures = results.failures if on_error != "collect" else []
    if not failures:
        return
    shown = "\n\n".join(str(error) for error in failures[:3])
    more = f"\n\n... and {len(failures) - 3} more" if len(failures) > 3 else ""
    text = f"{len(failures)} of {len(results)} tasks failed; the others are in this error's .results\n\n{shown}{more}"
    raise TasksFailed(text, results) from failures[0].__cause__
