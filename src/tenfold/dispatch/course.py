"""Feeds the legs of a study: what comes next depends on what became of the last ones.

Legs are asked for in a fixed order, and told of in that order: so a study is the same whoever finishes first, and one
that is repeated goes through what is in the journal and then on. Nothing here decides; the course does.

What a leg brought back to go on from is let go when it is of no use any more: it is several times the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenfold.dispatch.feed import Feed, same_item
from tenfold.engines import Batch
from tenfold.fuse.building import same_params
from tenfold.journal.store import Journal
from tenfold.search.course import Course
from tenfold.search.trial import End
from tenfold.work.leg import Leg
from tenfold.work.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Manner:
    """How legs are asked for."""

    at_once: int
    """Trials that may be under way."""
    whole: bool
    """The next are asked for when all of those have ended: they go together."""
    in_order: bool
    """Trials are told of in the order in which they were asked for."""
    again: bool = False
    """Those that have failed in an earlier call are run again: what comes next does not depend on them."""


_NONE = Leg(-1, {}, None)  # was under way when the study was stopped, and has lost its place


class CourseFeed(Feed):
    """The legs of a course, grouped by `cut`; `read` says how a leg ended from its outcome."""

    def __init__(
        self,
        course: Course,
        journal: Journal,
        manner: Manner,
        *,
        resumable: bool,
        cut: Callable[[dict[int, Leg]], list[list[int]]],
        read: Callable[[Leg, Outcome], End],
        told: Callable[[], None],
        lighter: Callable[[Any, bool], Any] | None,
    ) -> None:
        """`lighter(value, last)`: what to keep of a value that nobody goes on from; None for all of it."""
        super().__init__((), journal, resumable=resumable)
        self._course = course
        self._manner = manner
        self._cut = cut
        self._end = read
        self._told = told
        self._lighter = lighter
        self._legs: list[Leg] = []
        self._turns: deque[tuple[int, list[int]]] = deque()  # trials under way, with the places of their legs
        self._settled: set[int] = set()
        self._groups: deque[list[int]] = deque()
        self._loners: dict[int, tuple[dict[str, Any], str]] = {}  # trials that cannot be run with others, and why
        self._known = known_legs(journal, ok=True if manner.again else None) if resumable else {}
        self._places = {} if manner.in_order else {_key(leg): index for index, leg in self._known.items() if leg}
        if self._places:
            self.drawn = max(self._known) + 1
            self._legs += [self._known.get(index) or _NONE for index in range(self.drawn)]

    # -- the port -------------------------------------------------------------------------------------------------

    @property
    def left(self) -> int | None:
        return None

    def take(self, size: int) -> Batch | None:
        if self._again:
            return self._batch(*self._again.popleft())
        self._go_on()
        if not self._groups:
            return None
        group = self._groups.popleft()
        return self._batch(1, group, [self._loaded(self._legs[index]) for index in group])

    def _loaded(self, leg: Leg) -> Leg:
        """With what a model goes on from, which its last leg has brought back."""
        if leg.after is None:
            return leg
        return replace(leg, state=getattr(self._journal.outcome(leg.after).value, "saved", None))

    def settled(self, indices: Sequence[int]) -> None:
        self._settled.update(indices)

    def decline(self, index: int, item: Any, reason: str) -> None:
        """A leg that cannot be run with others, and so none of its trial's."""
        self._loners[item.trial] = item.params, reason
        self.declined[index] = reason
        self._legs[index] = replace(item, state=None, alone=reason)
        self._groups.append([index])

    def again(self, attempt: int, indices: Sequence[int], items: list[Any]) -> None:
        """In two halves: where a group was too much for its worker, a half may not be."""
        half = -(-len(items) // 2)
        for part in (slice(0, half), slice(half, None)):
            if items[part]:
                self._again.append((attempt, indices[part], items[part]))

    def kept(self, items: Sequence[Any]) -> list[Any]:
        """What a model goes on from is in the journal already, with the leg before."""
        return [replace(leg, state=None, alone=None) for leg in items]

    def _batch(self, attempt: int, indices: Sequence[int], items: list[Any]) -> Batch:
        return replace(super()._batch(attempt, indices, items), trials=[leg.trial for leg in items])

    # -- the course -----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Ask for what comes next and tell what has ended, until there is something to run or to wait for.

        All that may come is asked for before the next is told. Then what is known when a trial is suggested depends on
        the number of trials alone: not on who was quick, nor on what an earlier call has finished already.
        """
        fresh: dict[int, Leg] = {}
        while True:
            if not (self._manner.whole and self._turns):
                while self._ask(fresh):
                    pass
            if not self._tell():
                break
        alone = {index: reason for index, leg in fresh.items() if (reason := self._why_alone(leg)) is not None}
        for index, reason in alone.items():
            self._legs[index] = replace(fresh.pop(index), alone=reason)
        self._groups += [*self._cut(fresh), *([index] for index in alone)]
        self._let_go(self._course.spent, last=False)
        self._course.spent.clear()
        if not self._turns:
            self.exhausted = True

    def close(self) -> None:
        """Nothing comes any more, and nobody goes on."""
        self._course.close()
        self._let_go(self._course.spent, last=False)
        self._let_go([place for t in self._course.trials if t.state == "pruned" for place in t.places], last=True)
        self._journal.commit()

    def _let_go(self, places: Iterable[int], *, last: bool) -> None:
        """Of these, and in one go of those that were done together."""
        lighter = self._lighter
        left = sorted(places)
        while lighter is not None and left:
            block = self._journal.block(left[0])
            own = {place for place in left if place <= block[-1].index}
            left = left[len(own) :]
            kept = [lighter(one.value, last) if one.index in own else one.value for one in block]
            if any(now is not one.value for now, one in zip(kept, block, strict=True)):
                self._journal.replace(block[0].index, kept)

    def _why_alone(self, leg: Leg) -> str | None:
        """Why none of its trial's can be run with others. In a population, it may have become another model since."""
        params, reason = self._loners.get(leg.trial, (None, None))
        return reason if params is not None and same_params(params, leg.params) else None

    def _tell(self) -> bool:
        """The first trial under way, or any, whose legs have all ended."""
        for place, (trial, indices) in enumerate(self._turns):
            if self._settled.issuperset(indices):
                del self._turns[place]
                self._journal.commit()
                self._course.tell(trial, [self._end(self._legs[i], self._journal.outcome(i)) for i in indices])
                self._told()
                return True
            if self._manner.in_order:
                return False
        return False

    def _ask(self, fresh: dict[int, Leg]) -> bool:
        if len(self._turns) >= self._manner.at_once:
            return False
        legs = self._course.next()
        if legs is None:
            return False
        indices = [self._place(leg) for leg in legs]
        self._turns.append((legs[0].trial, indices))
        fresh |= {index: leg for index, leg in zip(indices, legs, strict=True) if index not in self._settled}
        return True

    def _place(self, leg: Leg) -> int:
        """The leg's place in the journal: the next, or in a study without an order the one that it had."""
        index = self._places.get(_key(leg), self.drawn)
        if index == self.drawn:
            self.drawn += 1
            self._legs.append(leg)
        if index in self._known:
            if self._manner.in_order:
                same_item(self._journal, index, leg)
            self._settled.add(index)
        return index


def known_legs(journal: Journal, *, ok: bool | None = None) -> dict[int, Leg | None]:
    """What an earlier call has done, failures included: a study that has learned from them does not try again.

    None for a leg that was too large to keep, or cannot be opened here.
    """
    outcomes = journal.outcomes(ok=ok)
    return {outcome.index: outcome.item if isinstance(outcome.item, Leg) else None for outcome in outcomes}


def _key(leg: Leg) -> tuple[int, int, int | None]:
    return leg.trial, leg.start, leg.fold
