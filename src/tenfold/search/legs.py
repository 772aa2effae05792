"""The legs of a trial, one a fold: what each goes on from, and what became of all folds together.

A fold may end before the others, by early stopping. Then it has no further legs, and what it has come to counts on.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.search.trial import End, Trial
from tenfold.work.leg import Bounds, Leg


class Legs:
    """Of all trials of a study."""

    def __init__(self, objective: str | None, *, folds: int | None, numbered: bool) -> None:
        """`numbered`: trials are models, whose steps are epochs."""
        self._objective = objective
        self._folds = folds
        self.numbered = numbered
        self._ended: dict[int, dict[int, End]] = {}  # folds of trials under way that have no leg now

    def next(self, trial: Trial, before: Sequence[End] | None, stop: int | None, bounds: Bounds | None) -> list[Leg]:
        """From where it paused, or from its beginning."""
        trial.state = "running"
        ends = dict(enumerate(before or ()))
        self._ended[trial.number] = {fold: end for fold, end in ends.items() if end.why != "paused"}
        return [
            Leg(
                trial.number,
                dict(trial.params),
                self._objective,
                start=trial.steps,
                stop=stop,
                bounds=bounds,
                fold=fold if self._folds else None,
                last=ends[fold].last if ends else None,
                numbered=self.numbered,
                after=ends[fold].index if ends else None,
            )
            for fold in range(self._folds or 1)
            if fold not in self._ended[trial.number]
        ]

    def take(self, trial: Trial, ends: Sequence[End]) -> list[End]:
        """What became of a trial's legs, and with them of all its folds."""
        before = self._ended.pop(trial.number, {})
        new = iter(ends)
        every = [before[fold] if fold in before else next(new) for fold in range(len(before) + len(ends))]
        trial.take(every, seconds=sum(end.seconds for end in ends))
        return every
