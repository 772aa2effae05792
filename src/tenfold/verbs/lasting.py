"""Workers that are started together, and together again from the last checkpoint when one of them is lost.

For trainings of which no survivor holds the whole state, so that the others cannot go on without the one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tenfold.dispatch.results import Results
from tenfold.engines import Engine
from tenfold.errors import TaskDied
from tenfold.training.keeper import Keeper
from tenfold.training.launched import Launched
from tenfold.training.parts import Parts
from tenfold.training.rendezvous import Blame
from tenfold.verbs.call import Call, Settings, opened
from tenfold.verbs.launch import one_group, raise_failure, told


@dataclass(frozen=True, slots=True)
class Lasted:
    """What came of it."""

    value: Any
    """What the first worker has returned."""
    plan: str
    """Where, and why so."""
    events: tuple[str, ...]
    """Who was lost, and where it went on, in words."""
    seconds: float
    """How long it took."""


def lasting(
    function: Callable[[Keeper], Any],
    settings: Settings,
    frameworks: Sequence[str],
    *,
    how: str,
    parts: int | None = None,
) -> Lasted:
    """Call it in as many processes as there are workers. They begin anew up to `settings.retries` times.

    `how` tells runs apart; `parts` is 1 where what the first one keeps is the whole.
    """
    count, engine, retries = settings.workers or 1, cast("Engine", settings.engine), settings.retries
    isolates = engine.abilities.isolates
    settings = replace(settings, retries=0, isolate=True if isolates else None)
    task = Launched(function, {}, frameworks, shares_process=not isolates, keeps=True)
    with opened("train", task, settings, total=count, on_error="stop", parts={"how": how}) as call:
        call.check_all_at_once(count)
        course = _Course(call, task, count, parts or count)
        blame = course.run(retries)
    results = Results(call.journal, count, seconds=call.watch.seconds, workers=count)
    if not course.is_over():
        raise_failure(results, blame)
    return Lasted(results[0], str(call.plan), tuple(course.events), call.watch.seconds)


class _Course:
    """From the first start to the end."""

    def __init__(self, call: Call, task: Launched, count: int, parts: int) -> None:
        self._call = call
        self._task = task
        self._count = count
        folder = call.journal.folder
        self._parts = Parts(None if folder is None else folder.parts, parts)
        self.events: list[str] = []

    def is_over(self) -> bool:
        """Whether the first worker has returned, who has the result: in this call, or before it."""
        return any(first == 0 for first, _ in self._call.journal.finished())

    def run(self, retries: int) -> Blame | None:
        """Who failed first for good, if one did."""
        blame = None
        try:
            for attempt in range(retries + 1):
                if self.is_over():
                    break
                self._begin(attempt)
                blame = self._once()
                if not self._may_begin_again(blame):
                    break
        finally:
            before = json.loads(self._call.journal.meta("events") or "[]")
            self._call.journal.set_meta(events=json.dumps([*before, *self.events]))
        if self.is_over():
            self._parts.clear()
        return blame

    def _begin(self, attempt: int) -> None:
        self._parts.begin()
        step = self._parts.step
        where = f"from step {step}" if step >= 0 else "from the beginning"
        if attempt and step < 0:
            where += ": there is no checkpoint" + ("" if self._parts.keeps else " without run=")
        self._note(f"{self._count} of {self._count} workers {'start again' if attempt else 'start'} {where}")
        self._call.watch.failed = 0  # those of the last attempt are tried again

    def _once(self) -> Blame | None:
        group = one_group(self._call, self._task, self._count, self._parts)
        folder = self._call.journal.folder
        if group.error is not None:
            raise folder.unusable(group.error) if folder is not None else group.error
        errors = (outcome.error for outcome in self._call.journal.outcomes(ok=False))
        blame = told(group.blame, [error for error in errors if error is not None])
        if blame is not None:
            self._note(f"worker {blame.rank}: {blame.text}; the others are ended with it")
        return blame

    def _may_begin_again(self, blame: Blame | None) -> bool:
        """What raises or takes too long would again; a process that was lost may live the next time."""
        if blame is not None:
            return blame.lost
        return any(isinstance(outcome.error, TaskDied) for outcome in self._call.journal.outcomes(ok=False))

    def _note(self, text: str) -> None:
        self.events.append(f"{self._call.watch.seconds:.1f} s: {text}")
