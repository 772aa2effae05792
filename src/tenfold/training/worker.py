"""In a worker: one of those that train a model together, from building its copy to the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tenfold import machine
from tenfold.errors import Abandoned, BadCall
from tenfold.fuse import settings
from tenfold.plan.seats import Seat
from tenfold.training import opening, room
from tenfold.training.asynchronous import Asynchronous
from tenfold.training.attendance import Attendance
from tenfold.training.averaging import Averaging
from tenfold.training.strategy import Strategy
from tenfold.training.synchronous import Synchronous
from tenfold.training.terms import Terms
from tenfold.training.trained import Helped, Trained
from tenfold.work.clock import Clock
from tenfold.work.here import here
from tenfold.work.run import Declined

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "synchronous": Synchronous,
    "asynchronous": Asynchronous,
    "averaging": Averaging,
}


class Worker:
    """The task of a training: its item is the worker's number."""

    notes_spent = True

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def __call__(self, index: int) -> Trained | Helped:
        terms, task, clock = self._terms, here(), Clock()
        attending = contextlib.closing(Attendance(terms.ticket, index))
        with attending as attendance, settings.applied(terms.fit.settings):
            try:
                member = terms.fit.member(terms.params, task)
                seat = task.given[1]
                learner = opening.learner(terms.fit, member, terms.precision, _devices(terms, seat))
                if (wanted := terms.devices or 1) > 1 and not learner.takes_devices:
                    raise BadCall(opening.one_device(wanted))
                if terms.how == "synchronous" and (terms.ticket.count > 1 or terms.accumulate > 1):
                    learner.check_shares()
                room.check(learner, room.of(seat, machine.look(), terms.beside.get(seat.machine, 1)))
                strategy = STRATEGIES["averaging" if terms.average_every else terms.how]
                return strategy(terms, member, learner, attendance, clock).train()
            except (Abandoned, Declined):
                raise
            except BaseException as error:  # sys.exit, too
                attendance.fail(f"worker {index}: {type(error).__name__}: {error}")
                raise

    def __tenfold_parts__(self) -> dict[str, Any]:
        terms = self._terms
        how: tuple[Any, ...] = (
            terms.how,
            "chosen" if terms.chosen else terms.ticket.count,
            terms.accumulate,
            terms.clip,
            terms.staleness,
            terms.average_every,
        )
        if terms.precision is not None:  # runs from before there was one go on
            how = (*how, terms.precision)
        if (terms.devices or 1) > 1 and not terms.chosen:
            how = (*how, f"{terms.devices} devices")
        given = {} if terms.exchange is None else {"exchange": terms.exchange}
        return {"fit": terms.fit, "params": dict(terms.params), "how": how, **given}

    @property
    def __name__(self) -> str:
        return f"train({self._terms.fit.__name__})"


def _devices(terms: Terms, seat: Seat) -> int:
    """What was asked for; else all GPUs of the seat, where every batch is divided anyway."""
    return terms.devices or (max(1, len(seat.gpus)) if terms.how == "synchronous" else 1)
