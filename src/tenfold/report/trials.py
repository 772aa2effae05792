"""The trials of a study, read from its journal: as `tenfold.tune` would give them back."""

from __future__ import annotations

from tenfold.journal.store import Journal
from tenfold.search.objective import Objective, objective
from tenfold.search.trial import End, Trial
from tenfold.work.leg import Leg


def looked_for(journal: Journal) -> Objective:
    """What the study looked for; of one that does not say, the name that its first leg has."""
    text = journal.meta("objective")
    if text is not None:
        return Objective.from_json(text)
    items = (outcome.item for outcome in journal.outcomes())
    name = next((item.objective for item in items if isinstance(item, Leg)), None)
    return objective(name, None, None)[0]


def trials(journal: Journal, wanted: Objective) -> list[Trial]:
    """In the order of their numbers. A trial's legs come one after the other, one a fold each time."""
    found: dict[int, Trial] = {}
    folds: dict[int, dict[int | None, End]] = {}
    for outcome in journal.outcomes():
        leg = outcome.item
        if not isinstance(leg, Leg):
            continue
        trial = found.setdefault(leg.trial, Trial(leg.trial, leg.params))
        trial.params = leg.params  # in a population, they change on the way
        ends = folds.setdefault(leg.trial, {})
        ends[leg.fold] = wanted.read(leg, outcome)
        trial.take(list(ends.values()), outcome.seconds)
    for number, trial in found.items():
        trial.become(list(folds[number].values()))
    return [found[number] for number in sorted(found)]
