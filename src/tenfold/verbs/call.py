"""What calls of all verbs share: the engine, the seats, the journal and its folder, the progress, and a crew's life."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tenfold import engines
from tenfold.dispatch import progress as progresses
from tenfold.dispatch.feed import Feed
from tenfold.dispatch.loop import Dispatch, OnError, Policy
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.using import choice
from tenfold.engines import Crew, Engine
from tenfold.errors import BadCall, RunDiffers
from tenfold.journal import fingerprint
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.kept import Shelf
from tenfold.journal.store import Journal
from tenfold.nursery import used
from tenfold.plan.choose import Plan, choose, odd
from tenfold.plan.needs import needs
from tenfold.report.provenance import provenance
from tenfold.verbs import observed
from tenfold.work.run import Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a caller may say about any call; `tenfold.map` explains each."""

    cpus: float = 1
    """Cores that a task needs."""
    gpus: float = 0
    """GPUs that a task needs."""
    memory: int | str | None = None
    """Above which a task is stopped."""
    workers: int | None = None
    """How many tasks at once."""
    isolate: bool | None = None
    """A process for each task."""
    retries: int = 0
    """How often a failed task is tried again."""
    timeout: float | None = None
    """Seconds that an attempt may take."""
    seed: int = 0
    """From which every task's own is derived."""
    engine: object = None
    """Where."""
    run: str | os.PathLike[str] | None = None
    """The folder that keeps what is finished."""
    fresh: bool = False
    """Start that run anew."""
    progress: bool | None = None
    """False shows nothing."""

    def faults(self) -> list[str]:
        """What is wrong with them, in words, whatever the machine and the engine are."""
        found: list[str] = []
        sound(found, needs, self.cpus, self.gpus, self.memory)
        found += odd(self.workers, self.isolate, self.timeout)
        for name, value in (("retries", self.retries), ("seed", self.seed)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                found.append(f"{name}={value!r}: expected a whole number, 0 or above")
        run = self.run
        if run is not None and not (isinstance(run, str | os.PathLike) and os.fspath(run) and "\0" not in str(run)):
            found.append(f"run={run!r}: expected the name of a folder")
        if self.fresh and run is None:
            found.append("fresh=True: there is nothing to start anew without run=")
        return found


def lazy_faults(argument: str, function: object, *, generates: bool = False) -> list[str]:
    """A function that does nothing when it is called, but returns what would do it: that does not travel.

    `generates`: it may be a generator.
    """
    name = getattr(function, "__name__", function)
    if inspect.iscoroutinefunction(function):
        what, how = "async", f"asyncio.run({name}(item))"
    elif inspect.isasyncgenfunction(function):
        what, how = "an async generator", f"asyncio.run(all_of({name}(item)))"
    elif inspect.isgeneratorfunction(function) and not generates:
        what, how = "a generator", f"list({name}(item))"
    else:
        return []
    does_nothing = f"{argument}={name}: it is {what}, so that calling it does nothing yet"
    return [f"{does_nothing}; give one that runs it, such as lambda item: {how}"]


def sound(faults: list[str], make: Callable[..., T], *given: Any, **named: Any) -> T | None:
    """What `make` makes of them; None where it is a bad call, and what is wrong is added to `faults`."""
    try:
        return make(*given, **named)
    except BadCall as error:
        faults.append(str(error))
        return None


@dataclass(frozen=True, slots=True)
class Call:
    """One call, ready to run tasks; most run one feed with one crew."""

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
    job: Job
    """What workers must know."""

    def crew(self, task: Callable[[Any], Any], job: Job) -> Crew:
        return self.engine.open(task, job, self.plan)

    def check_all_at_once(self, count: int) -> None:
        """Refuse tasks that wait for each other where not all of them can run at the same time."""
        seats = len(self.plan.seats)
        if seats < count:
            raise BadCall(
                f"workers={count}: only {seats} can work at once here, and all must be there at once; "
                f"give workers={seats}, or fewer cpus, gpus or memory for each"
            )

    def run(self, open_crew: Callable[[], Crew], feed: Feed) -> None:
        """Every task of the feed."""
        if feed.is_empty():
            return
        crew = open_crew()
        try:
            Dispatch(crew, feed, self.journal, self.pace, self.policy, self.watch).run()
        except KeyboardInterrupt as interrupt:
            if self.journal.folder is not None:
                where = str(self.journal.folder.path)
                interrupt.add_note(f"{self.watch.line()}; the same call continues the run in {where!r}")
            raise
        finally:
            crew.close()
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.journal.commit()


@contextlib.contextmanager
def opened(
    verb: str,
    task: Callable[[Any], Any],
    settings: Settings,
    *,
    total: int | None,
    on_error: OnError,
    parts: Mapping[str, str],
    even: bool = False,
    shelved: bool = False,
) -> Iterator[Call]:
    """From settings to a call that can run. `parts` identify it besides the task and the seed.

    `even`: all tasks take about equally long. `shelved`: large values are kept in a file also without a run, since all
    of them may be more than memory holds.
    """
    timeout = None if settings.timeout == math.inf else settings.timeout
    chosen = choice(settings.engine, settings.workers)
    machines = chosen.engine.machines()
    abilities = chosen.engine.abilities  # asked now, because a cluster measures what a batch costs there
    plan = choose(
        machines,
        needs(settings.cpus, settings.gpus, settings.memory),
        abilities,
        workers=chosen.workers,
        isolate=settings.isolate,
        timeout=timeout,
        first_core=os.getpid(),
    )
    policy = Policy(settings.retries, timeout if abilities.stops == "kill" else None, on_error)
    pace = Pace(abilities.seconds_per_batch, one_by_one=plan.isolate, even=even)
    with _journal(settings, shelved=shelved) as journal, _tasks_folder(journal) as tasks:
        _recognise(journal, verb, task, {"seed": str(settings.seed), **parts}, total)
        members = used.members(task)
        about = {"engine": engines.name_of(chosen.engine), "workers": len(plan.seats), "plan": str(plan)}
        if journal.folder is not None:  # of a call without a run, nobody will ask
            about |= provenance(machines, members)
        journal.begin_session(about)
        limit = timeout if abilities.stops in ("alarm", "there") else None
        alone = abilities.processes or not abilities.parallel
        job = Job(settings.seed, str(tasks), journal.folder is None, members, alone, limit)
        watch = progresses.watch(settings.progress, total, already=journal.counts()[0])
        began = time.time()
        with contextlib.closing(watch):
            yield Call(chosen.engine, plan, journal, pace, policy, watch, job)
        journal.end_session()
        observed.note(task, journal, began, plan.seats)


@contextlib.contextmanager
def _journal(settings: Settings, *, shelved: bool) -> Iterator[Journal]:
    """The journal of the call; locked while it is written, and left open for the results to read."""
    with contextlib.ExitStack() as stack:
        folder = None if settings.run is None else Folder(settings.run)
        if folder is not None:
            folder.prepare()
            stack.enter_context(folder.locked())
            if settings.fresh and is_run(folder.path):
                _clear(folder)
        journal = Journal(folder, beside=Shelf() if shelved and folder is None else None)
        try:
            yield journal
        except BaseException:
            journal.close()
            raise


def _clear(folder: Folder) -> None:
    for path in (folder.values, folder.tasks, folder.parts):
        shutil.rmtree(path, ignore_errors=True)
    folder.checkpoint.unlink(missing_ok=True)
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


def _recognise(
    journal: Journal, verb: str, task: Callable[[Any], Any], parts: Mapping[str, str], total: int | None
) -> None:
    """Refuse a run that belongs to another call, with what differs."""
    if journal.folder is None:
        return
    now = fingerprint.of_function(task) | {**parts, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    before = journal.meta("fingerprint")
    faults = fingerprint.differences(json.loads(before), now) if before else []
    if (was := journal.meta("verb")) is not None and was != verb:
        faults = [f"it was made by tenfold.{was}"]
    count = journal.meta("count")
    if count and total is not None and int(count) != total:
        faults.append(f"there were {count} items and are now {total}")
    if faults:
        raise RunDiffers(
            f"run={str(journal.folder.path)!r} differs from this call: {'; '.join(faults)}. "
            "Give run= another folder, or fresh=True to start this one anew"
        )
    known = {} if total is None else {"count": str(total)}
    journal.set_meta(verb=verb, function=fingerprint.name_of(task), fingerprint=json.dumps(now), **known)
