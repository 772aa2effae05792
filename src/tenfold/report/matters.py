"""Of a study: which parameters matter, and what became of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenfold.errors import BadCall, MissingPackage
from tenfold.journal.store import Journal
from tenfold.report import bars, slices
from tenfold.report.parts import Chart, Section
from tenfold.report.slices import Dot
from tenfold.search import importance
from tenfold.search.objective import Objective
from tenfold.search.space import Space
from tenfold.search.trial import Trial

DRAWN = 200  # trials: the best of them
LEAST = 8  # complete trials, below which shares of the variation are chance
MOST = 200  # complete trials that fANOVA is given: a second; it takes 25 for 1000


def section(journal: Journal, ranked: Sequence[Trial], wanted: Objective) -> list[Section]:
    """Of trials with an objective, the best first; without parameters that differ, nothing."""
    names = varied(journal, ranked)
    if not names or len(ranked) < 2:
        return []
    charts = [*_importance(journal, ranked, wanted), _slices(ranked, wanted, names)]
    return [Section("What matters", charts)]


def varied(journal: Journal, trials: Sequence[Trial]) -> dict[str, bool | None]:
    """Parameters that are not the same in all trials, and whether they are shown by factors; None: it is not known."""
    text = journal.meta("space")
    space = Space.from_json(text) if text is not None else None
    found: dict[str, bool | None] = {}
    for name in dict.fromkeys(name for trial in trials for name in trial.params):
        if len({repr(trial.params.get(name)) for trial in trials}) > 1:
            found[name] = None if space is None else _is_log(space, trials, name)
    return found


def _is_log(space: Space, trials: Sequence[Trial], name: str) -> bool | None:
    """As it was suggested; of a choice, which may be of numbers, None."""
    own = next(trial.params for trial in trials if name in trial.params)
    return number.log if (number := space.numbers(own).get(name)) is not None else None


def _slices(ranked: Sequence[Trial], wanted: Objective, names: Mapping[str, bool | None]) -> Chart:
    name = wanted.names[0] or "value"
    words = f"Each dot is a trial, once for each parameter; {'more' if wanted.sign < 0 else 'less'} is better."
    if len(ranked) > DRAWN:
        words += f" The best {DRAWN} of {len(ranked):,} trials are drawn."
    if len(names) > slices.MOST:
        words += f" The first {slices.MOST} of {len(names)} parameters are drawn."
    kinds = ["best", *("complete" if trial.state == "complete" else "pruned" for trial in ranked[1:DRAWN])]
    dots = [
        Dot(trial.params, trial.value, kind, f"trial {trial.number}")
        for trial, kind in zip(ranked, kinds, strict=False)
    ]
    return slices.chart(f"{name} over each parameter", words, dots, names, name)


def _importance(journal: Journal, ranked: Sequence[Trial], wanted: Objective) -> list[Chart]:
    """Nothing where there are too few trials, or no Optuna; or of a run that does not say from what it suggested."""
    complete = [trial for trial in ranked if trial.state == "complete"]
    text = journal.meta("space")
    if text is None or len(complete) < LEAST:
        return []
    asked = sorted(complete, key=lambda trial: trial.number)[:: -(-len(complete) // MOST)]
    try:
        shares = importance.of_trials(asked, Space.from_json(text), wanted.directions)
    except (MissingPackage, ImportError, BadCall, ValueError, KeyError):  # the page is no less without it
        return []
    found = {name: share for name, share in shares.items() if share > 0}
    if len(found) < 2:
        return []
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.items())
    which = f"{len(asked):,} of the {len(complete):,}" if len(complete) > MOST else f"the {len(complete):,}"
    words = f"Shares of its variation, by Optuna's fANOVA over {which} complete trials: {told}."
    return [bars.shares(f"How much of {wanted.names[0] or 'value'} comes from each parameter", words, found)]
