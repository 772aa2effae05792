"""In a worker: one of those that run a function together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenfold.errors import Abandoned
from tenfold.machine.host import host
from tenfold.training import apart, groups
from tenfold.training.gang import Attendee, Gang
from tenfold.training.keeper import Keeper
from tenfold.training.line import Line
from tenfold.training.wires import Ticket
from tenfold.work.clock import Clock
from tenfold.work.here import here


class Launched:
    """The task of a launch: its item is the worker's rank."""

    def __init__(
        self,
        function: Callable[..., Any],
        params: Mapping[str, Any],
        frameworks: Sequence[str],
        ticket: Ticket | None = None,
        *,
        shares_process: bool = False,
        keeps: bool = False,
    ) -> None:
        """`shares_process`: the worker's process is somebody else's, and stays; then another one is started in it.

        `keeps`: the function is given a `Keeper` first, to go on from what it has kept there.
        """
        self._function = function
        self._params = params
        self._frameworks = tuple(frameworks)
        self._ticket = ticket
        self._shares_process = shares_process
        self._keeps = self.notes_spent = keeps
        self._began: float | None = None

    def directed(self, ticket: Ticket) -> Launched:
        """The same, for workers that know where to meet."""
        return self._like(ticket, shares_process=self._shares_process)

    def _like(self, ticket: Ticket, *, shares_process: bool) -> Launched:
        own = self._function, self._params, self._frameworks
        return Launched(*own, ticket, shares_process=shares_process, keeps=self._keeps)

    def __call__(self, rank: int) -> Any:
        if self._shares_process:
            assert self._ticket is not None
            inner = self._like(self._ticket, shares_process=False)
            inner._began = time.monotonic()  # the same in all processes of a machine
            return apart.run(inner, rank, self._frameworks)
        assert self._ticket is not None
        with contextlib.closing(Line(self._ticket, rank)) as line:
            try:
                return self._work(rank, line)
            except Abandoned:
                raise
            except BaseException as error:
                line.fail(f"{type(error).__name__}: {error}")
                raise

    def _work(self, rank: int, line: Line) -> Any:
        assert self._ticket is not None
        count, task, clock = self._ticket.count, here(), Clock(self._began)
        task.rank, task.workers = rank, count
        formed = groups.made(self._frameworks)
        ports = {name: group.offer(rank, count) for name, group in formed.items()}
        gang = Gang(rank, line.meet(Attendee(rank, host(), line.address, ports)))
        for group in formed.values():
            group.join(gang)
        value = self._function(*([Keeper(line, clock)] if self._keeps else []), **self._params)
        line.finish()
        clock.lap("waiting")  # for the others; what was returned has what the clock says, not a copy of it
        for group in reversed(formed.values()):
            group.leave()
        return value

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"function": self._function, "params": dict(self._params)}

    @property
    def __name__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return name if self._keeps else f"launch({name})"
