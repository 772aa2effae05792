"""How much each parameter matters for the objective: Optuna's fANOVA, of a study or of trials that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenfold.errors import BadCall
from tenfold.search.space import Space
from tenfold.search.suggestions import Suggestions, library, quiet
from tenfold.search.trial import Trial

if TYPE_CHECKING:
    import optuna


def of_study(study: optuna.Study) -> dict[str, float]:
    """Share of the variation that comes from each parameter, the most important first."""
    with quiet():
        evaluator = library().importance.FanovaImportanceEvaluator(seed=0)
        target = None if len(study.directions) == 1 else (lambda trial: trial.values[0])
        try:
            found = library().importance.get_param_importances(study, evaluator=evaluator, target=target)
        except (ValueError, RuntimeError) as error:
            raise BadCall(f"importance(): {error}") from error
    return {name: float(share) for name, share in found.items()}


def of_trials(trials: Sequence[Trial], space: Space, directions: Sequence[str]) -> dict[str, float]:
    """The same for complete trials of a space."""
    known = dict(enumerate(trial.params for trial in trials))
    suggested = Suggestions(space, "random", 0, directions, known)
    for number, trial in enumerate(trials):
        suggested.ask()
        suggested.tell(number, trial.values, trial.curve, complete=True)
    return of_study(suggested.study())
