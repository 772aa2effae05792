"""Runs a task that takes several items at once: in groups where it can, one by one where it says that it cannot.

The task is asked for abilities, not for its class:

    together(tasks)      run several in one worker; `Declined` in the place of one that cannot be run so
    alone(reasons)       the function that runs those
    likeness(item)       equal for items that are likely to go together
    refusal(frameworks)  why none can, or None
    variables(frameworks)  what workers need in their environment
    check(items)         raises BadCall where items cannot work, before anything starts
    received(value)      gives a value what did not travel with it
    finished(folder)     everything is done: what was kept in the shared folder to go on from can go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from tenfold.dispatch.feed import Feed
from tenfold.dispatch.groups import GroupFeed
from tenfold.plan.groups import cut
from tenfold.verbs.call import Call
from tenfold.work.here import SHARED
from tenfold.work.run import Job


class Grouped(Protocol):
    """A task that takes several items at once."""

    def together(self, tasks: Sequence[Any]) -> list[Any]: ...

    def __call__(self, item: Any) -> Any: ...

    def alone(self, reasons: Mapping[int, str]) -> Callable[[Any], Any]: ...

    def likeness(self, item: Any) -> Any: ...

    def refusal(self, frameworks: Sequence[str]) -> str | None: ...

    def variables(self, frameworks: Sequence[str]) -> Mapping[str, str]: ...

    def check(self, items: Sequence[Any]) -> None: ...

    def received(self, value: Any) -> Any: ...

    def finished(self, folder: Path) -> None: ...


def is_grouped(task: Any) -> TypeGuard[Grouped]:
    return hasattr(task, "together")


def run(task: Grouped, items: Sequence[Any], call: Call) -> Feed:
    """Everything that is not finished yet; returns what it was fed from."""
    journal, job = call.journal, call.job

    def groups(left: list[int]) -> list[list[int]]:
        return cut({index: task.likeness(items[index]) for index in left}, len(call.plan.seats))

    def feed(choose: Callable[[list[int]], list[list[int]]]) -> GroupFeed:
        return GroupFeed(items, journal, resumable=journal.folder is not None, cut=choose)

    task.check(items)
    reason = refusal(task, call)
    fed = feed(groups)
    if reason is None:
        call.run(lambda: call.crew(task, job_of_groups(task, call)), fed)
        declined = fed.declined
    else:
        declined = dict.fromkeys(range(len(items)), reason)
    if declined:
        alone = feed(lambda left: [[index] for index in left if index in declined])
        call.run(lambda: call.crew(task.alone(declined), job), alone)
    if journal.counts() == (len(items), 0):
        task.finished(Path(job.folder) / SHARED)
    return fed


def job_of_groups(task: Grouped, call: Call) -> Job:
    """What the workers of groups must know."""
    return replace(call.job, variables=tuple(sorted(task.variables(call.job.frameworks).items())))


def refusal(task: Grouped, call: Call) -> str | None:
    """Why nothing can go together, where that is known beforehand."""
    asked = call.plan.isolate and not call.plan.needs.gpus
    isolated = "each has a process of its own, as asked with isolate=True" if asked else None
    return task.refusal(call.job.frameworks) or isolated
