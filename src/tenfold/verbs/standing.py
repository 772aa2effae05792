"""A task that takes several items at once, and workers that wait for more of them.

What a worker has compiled for the first items is there for the next ones. `map` lets its workers go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tenfold.dispatch import progress as progresses
from tenfold.dispatch.results import Results
from tenfold.engines import Crew, Engine
from tenfold.errors import BadCall
from tenfold.journal.store import Journal
from tenfold.machine import Machine
from tenfold.plan.choose import Plan
from tenfold.verbs import grouped
from tenfold.verbs.call import Settings, opened
from tenfold.verbs.grouped import Grouped
from tenfold.work.run import Job


class Standing:
    """Runs items of one task, again and again, until it is closed. Failures stand in the place of results."""

    def __init__(self, task: Grouped, settings: Settings) -> None:
        if faults := settings.faults():
            raise BadCall("; ".join(faults))
        self.task = task
        self._progress = settings.progress
        quiet = replace(settings, progress=False)  # each run shows its own
        self._stack = contextlib.ExitStack()
        call = self._stack.enter_context(opened("map", task, quiet, total=None, on_error="collect", parts={}))
        engine = _Keeping(call.engine, task)
        self._stack.callback(engine.close)
        self._call = replace(call, engine=engine)

    def run(self, items: Sequence[Any]) -> Results:
        """What became of each."""
        journal = Journal(None)
        with contextlib.closing(progresses.watch(self._progress, len(items), already=0)) as watch:
            grouped.run(self.task, items, replace(self._call, journal=journal, watch=watch))
        workers = len(self._call.plan.seats)
        return Results(journal, len(items), seconds=watch.seconds, workers=workers, received=self.task.received)

    def close(self) -> None:
        self._stack.close()


class _Keeping:
    """An engine whose crew for one task stays until `close`."""

    def __init__(self, engine: Engine, task: object) -> None:
        self._engine = engine
        self._task = task
        self._kept: Crew | None = None
        self.abilities = engine.abilities

    def machines(self) -> list[Machine]:
        return self._engine.machines()

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> Crew:
        if function is not self._task:
            return self._engine.open(function, job, plan)
        if self._kept is None:
            self._kept = self._engine.open(function, job, plan)
        return _Staying(self._kept)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()


class _Staying:
    """A crew that does not go home."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.send = crew.send
        self.receive = crew.receive
        self.running = crew.running
        self.stop = crew.stop

    @property
    def capacity(self) -> int:
        return self._crew.capacity

    def close(self) -> None:
        """Later."""
