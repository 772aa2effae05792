"""Population-based training: all trials at once, in stretches; the worst go on with the best ones' weights.

After each stretch, a trial among the worst takes over the weights (or the files) and the parameters of one among the
best, and its numbers are moved a little. So a schedule of parameters is found while the models are trained, once. Of
models, whole numbers and choices are not moved: they are widths and kinds of layers, and weights would not fit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.search.legs import Legs
from tenfold.search.space import Number, Space
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End, Trial
from tenfold.work.leg import Leg

FACTORS = (0.8, 1.25)
"""By which numbers are moved."""


@dataclass(frozen=True, slots=True)
class Pbt:
    """Settings of `sampler="pbt"`."""

    every: int | None = None
    """Steps between exchanges; a fifth of all where it is not given."""
    share: float = 0.25
    """Of the trials that are the worst, and of those that are the best."""
    again: float = 0.1
    """How often a parameter is drawn anew rather than moved."""

    def faults(self, trials: Any, steps: int | None) -> list[str]:
        found = []
        if self.every is not None and (
            isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1
        ):
            found.append(f"Pbt(every={self.every!r}): expected a whole number above 0")
        if not _is_number(self.share) or not 0 < self.share <= 0.5:
            found.append(f"Pbt(share={self.share!r}): expected a number above 0, at most 0.5")
        if not _is_number(self.again) or not 0 <= self.again <= 1:
            found.append(f"Pbt(again={self.again!r}): expected a number from 0 to 1")
        if not isinstance(trials, int) or trials < 2:
            found.append(f"trials={trials!r}: a population is of two at least")
        if steps is None:
            found.append("steps=None: sampler='pbt' has to know how many steps a trial has; give steps=")
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Population:
    """A `Course`: generations of all trials."""

    def __init__(
        self,
        space: Space,
        suggestions: Suggestions,
        settings: Pbt,
        legs: Legs,
        *,
        trials: int,
        steps: int,
        sign: int,
        seed: int,
        take_over: Callable[[int, int, int], None],
    ) -> None:
        """`take_over(trial, donor, step)`: for tasks that keep files, the trial goes on with the donor's."""
        self._space = space
        self._suggestions = suggestions
        self._settings = settings
        self._count = trials
        self._steps = steps
        self._every = settings.every or -(-steps // 5)
        self._made = legs
        self._sign = sign
        self._random = random.Random(seed)
        self._take_over = take_over
        self._ends: dict[int, list[End]] = {}
        self._waiting: list[list[Leg]] = []
        self.trials: list[Trial] = []
        self.spent: list[int] = []
        self._past: list[int] = []  # legs of the generation before this one

    def next(self) -> list[Leg] | None:
        if len(self.trials) < self._count:
            params = self._suggestions.ask()
            assert params is not None
            self.trials.append(Trial(len(self.trials), params))
            return self._legs(self.trials[-1], None)
        if not self._waiting and all(trial.state != "running" for trial in self.trials):
            self._exchange()
        return self._waiting.pop(0) if self._waiting else None

    def _legs(self, trial: Trial, before: Sequence[End] | None) -> list[Leg]:
        stop = trial.steps + self._every
        return self._made.next(trial, before, stop if stop < self._steps else None, None)

    def tell(self, trial: int, ends: Sequence[End]) -> None:
        found = self.trials[trial]
        before = found.places
        every = self._made.take(found, ends)
        self._past += set(before).difference(found.places)
        found.become(every)
        if found.state == "pruned":  # until the next generation
            self._ends[trial] = every
        elif found.state == "complete":
            self._ends.pop(trial, None)
        self._suggestions.tell(trial, found.values, found.curve, complete=found.state == "complete")

    def close(self) -> None:
        self._ends.clear()
        self._let_go()

    # -- a generation ---------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        """Several may go on from one leg: when all of a generation have ended, nobody does from the one before."""
        self.spent += self._past
        self._past = []

    def _exchange(self) -> None:
        """The worst take over from the best; then all go on."""
        self._let_go()
        paused = sorted(self._ends, key=lambda number: (self._rank(self.trials[number]), number))
        few = max(int(len(paused) * self._settings.share), 1) if len(paused) > 1 else 0
        best, worst = paused[:few], paused[len(paused) - few :]
        donors = {number: self._random.choice(best) for number in worst}
        ends = {number: self._ends[donors.get(number, number)] for number in paused}
        for number, donor in donors.items():
            self._copy(self.trials[number], self.trials[donor])
        self._ends.clear()
        self._waiting = [self._legs(self.trials[number], ends[number]) for number in sorted(paused)]

    def _rank(self, trial: Trial) -> float:
        value = self._sign * trial.value
        return math.inf if math.isnan(value) else value

    def _copy(self, trial: Trial, donor: Trial) -> None:
        trial.params = self._moved(donor.params)
        trial.steps = donor.steps
        self._suggestions.moved(trial.number, donor.number, trial.params)
        trial.lineage.append({"step": donor.steps, "from": donor.number, "params": dict(trial.params)})
        self._take_over(trial.number, donor.number, donor.steps)

    def _moved(self, params: dict[str, Any]) -> dict[str, Any]:
        found = dict(params)
        for name, number in self._space.numbers(params).items():
            if not (self._made.numbered and number.whole):
                found[name] = self._other(number, params[name])
        if self._made.numbered:
            return found
        for name, choice in self._space.choices(params).items():
            if self._random.random() < self._settings.again:
                found[name] = self._random.choice(choice.values)
        return found

    def _other(self, number: Number, value: float) -> float:
        if self._random.random() < self._settings.again:
            share = self._random.random()
            if number.log:
                value = math.exp(math.log(number.low) + share * (math.log(number.high) - math.log(number.low)))
            else:
                value = number.low + share * (number.high - number.low)
        else:
            value *= self._random.choice(FACTORS)
        value = min(max(value, number.low), number.high)
        return round(value) if number.whole else float(value)  # an end of the space may be written as 1
