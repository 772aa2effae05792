"""In a worker of a group: trains a model on the devices of all processes at once, as one process would on its own.

Keras on TensorFlow or JAX divides each batch among the devices, and adds gradients up by collectives of its own, on
GPUs by NCCL. Every process takes the same steps, with all rows of each batch, so that none of them waits for a sum
that another one does not ask for. Nobody can leave such a group or come to it: when one is lost, all start again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from tenfold import machine
from tenfold.fuse import settings
from tenfold.machine.host import host
from tenfold.training import opening, room
from tenfold.training.attendance import Attending
from tenfold.training.keeper import Keeper
from tenfold.training.muster import Arrival, Muster
from tenfold.training.synchronous import Synchronous
from tenfold.training.terms import Terms
from tenfold.training.trained import Helped, Trained
from tenfold.work.here import here


class InGroup:
    """The function of each worker."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def __call__(self, keeper: Keeper) -> Trained | Helped:
        with settings.applied(self._terms.fit.settings):
            return self._train(keeper)

    def _train(self, keeper: Keeper) -> Trained | Helped:
        terms, task = self._terms, here()
        rank, count = task.rank or 0, task.workers or 1
        member = replace(terms.fit.member(terms.params, task), index=0)  # the same random numbers everywhere
        if rank:
            terms, member = replace(terms, checkpointing=None), replace(member, report=_unheard)
        learner = opening.in_group(terms.fit, member, count)
        if terms.accumulate > 1:
            learner.check_shares()
        room.check(learner, room.of(task.given[1], machine.look(), 1))
        with_others = _WithOthers(keeper)
        trained = cast("Trained", _InStep(terms, member, learner, with_others, keeper.clock).train())
        return Helped(trained.spent) if rank else replace(trained, workers=count)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"fit": self._terms.fit, "params": dict(self._terms.params)}

    @property
    def __name__(self) -> str:
        return f"train({self._terms.fit.__name__})"


class _InStep(Synchronous):
    """One step at a time: how many are taken in one go must not depend on a worker's own clock."""

    _most = 1


class _WithOthers(Attending):
    """There is one muster, of which this worker is all that it sees; what is kept is kept by the first of them."""

    def __init__(self, keeper: Keeper) -> None:
        self.index, self.key, self.listener = 0, b"", None
        self._keeper = keeper
        self._result: Any = None

    def regroup(self, step: int, state: Callable[[], Any]) -> tuple[Muster, Any]:
        alone = Arrival(self.index, host(), os.getpid(), ("", 0), step)
        return Muster(1, (alone,), step, 0), self._keeper.recall()

    def save(self, mark: int, state: Any) -> None:
        _, progress = state
        self._keeper.keep(progress.step, state)

    def finish(self, result: Any) -> None:
        self._result = result

    def await_end(self) -> Any:
        return self._result


def _unheard(epoch: int, logs: dict[str, float]) -> None:
    """The first worker reports, for all."""
