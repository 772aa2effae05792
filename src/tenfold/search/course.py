"""The course of a study: which legs come next, given what became of the earlier ones. Pure, and the same every time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tenfold.search import pruners
from tenfold.search.legs import Legs
from tenfold.search.pruners import Pruner
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End, Trial
from tenfold.work.leg import Leg


class Course(Protocol):
    """Decides; knows no engine and no journal. Told of trials in the order that makes the study what it is."""

    trials: list[Trial]
    spent: list[int]
    """Places of legs whose trials have gone on, and nobody will go on from them any more. Its reader empties it."""

    def next(self) -> list[Leg] | None:
        """The legs of one trial, one a fold; None where nothing comes before something is told, or at the end."""

    def tell(self, trial: int, ends: Sequence[End]) -> None:
        """What became of them."""

    def close(self) -> None:
        """Nothing comes any more: whoever still waits was not worth going on."""


class Search:
    """New trials as they are suggested; old ones as they earn it."""

    def __init__(
        self,
        suggestions: Suggestions,
        pruner: Pruner,
        legs: Legs,
        *,
        trials: int | None,
        sign: int,
        known: Collection[tuple[int, int]] = (),
    ) -> None:
        """`known`: (trial, steps before it) of legs that are done already, and so are no question any more."""
        self._suggestions = suggestions
        self._pruner = pruner
        self._most = trials
        self._made = legs
        self._sign = sign
        self._exhausted = False
        self._known = set(known)
        self._ends: dict[int, list[End]] = {}  # of paused trials
        self.trials: list[Trial] = []
        self.spent: list[int] = []

    def next(self) -> list[Leg] | None:
        promoted = self._promoted(closing=False)
        if promoted is None and not self._exhausted:
            params = self._suggestions.ask() if self._most is None or len(self.trials) < self._most else None
            if params is not None:
                self.trials.append(Trial(len(self.trials), params))
                return self._legs(self.trials[-1], None)
            self._exhausted = True
        if promoted is None and all(trial.state != "running" for trial in self.trials):
            self._known.clear()  # the rest of them cannot come
            promoted = self._promoted(closing=True)
        return None if promoted is None else self._legs(self.trials[promoted], self._ends.pop(promoted))

    def _promoted(self, *, closing: bool) -> int | None:
        """What went on before goes on again; as long as not all of that has been told, nobody else does."""
        for trial in self._ends:
            if (trial, self.trials[trial].steps) in self._known:
                return trial
        if self._known:
            return None
        while (found := self._pruner.promoted(closing=closing)) is not None and found not in self._ends:
            pass  # it has gone on already, and failed
        return found

    def _legs(self, trial: Trial, before: Sequence[End] | None) -> list[Leg]:
        stop = self._pruner.stop(trial.number, trial.steps)
        return self._made.next(trial, before, stop, pruners.bounds(self._pruner, self._sign))

    def tell(self, trial: int, ends: Sequence[End]) -> None:
        found = self.trials[trial]
        self._known.discard((trial, found.steps))
        before = found.places
        every = self._made.take(found, ends)
        self.spent += set(before).difference(found.places)
        found.become(every)
        reasons = {end.why for end in every}
        if found.state == "pruned" and "pruned" not in reasons:  # it may be promoted
            self._ends[trial] = every
            self._pruner.reached(trial, found.steps, self._sign * found.value)
        elif found.state == "complete":
            self._pruner.ended(trial, {step: self._sign * value for step, value in found.curve.items()})
        self._suggestions.tell(trial, found.values, found.curve, complete=found.state == "complete")

    def close(self) -> None:
        self._ends.clear()
