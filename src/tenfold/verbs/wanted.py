"""What a call of `tenfold.tune` asks for, looked at as a whole: all that is wrong with it, in one message."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from tenfold.errors import BadCall
from tenfold.fuse.fit import Fit
from tenfold.fuse.stopping import EarlyStopping
from tenfold.journal import fingerprint
from tenfold.search import folds as folding
from tenfold.search import pruners, suggestions
from tenfold.search.fits import Fits
from tenfold.search.objective import Objective
from tenfold.search.objective import objective as reading
from tenfold.search.population import Pbt
from tenfold.search.space import Space, checked
from tenfold.search.trying import Trying
from tenfold.verbs.call import lazy_faults


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller has asked for, looked at."""

    task: Fits | Trying
    """What is called with legs."""
    space: Space
    """What may be tried."""
    trials: int | None
    """How many."""
    objective: Objective
    """What is looked for."""
    sampler: Any
    """A name, an object of Optuna's, or `Pbt`."""
    pruner: Any
    """Settings of one; None where all trials come to their end."""
    folds: int | None
    """How many."""
    steps: int | None
    """Of a trial."""
    at_once: int
    """Trials under way."""
    asynchronous: bool
    """In whatever order."""

    @property
    def source(self) -> Any:
        """What suggests."""
        return "random" if isinstance(self.sampler, Pbt) else self.sampler

    @property
    def plain(self) -> bool:
        """Trials are suggested one after the other and run to their end: how many there are makes none another."""
        return not (self.asynchronous or self.pruner is not None or isinstance(self.sampler, Pbt))

    def parts(self) -> dict[str, str]:
        """What identifies the study besides its task."""
        named = self.sampler if isinstance(self.sampler, str | Pbt) else type(self.sampler).__name__
        return {
            "space": _identity(self.space.given),
            "trials": "any" if self.plain else str(self.trials),
            "steps": str(self.steps),
            "objective": str(self.objective),
            "sampler": str(named),
            "pruner": str(self.pruner),
            "at_once": str(self.at_once),
            "asynchronous": str(self.asynchronous),
        }


def _identity(space: Any) -> str:
    """A text that says for functions and objects what they are, and not where in memory."""
    try:
        return fingerprint.of_value(space).hex()
    except Exception:  # something that cannot be pickled: then it is told by what it looks like
        return fingerprint.of_value(repr(space)).hex()


def look(
    task: Any,
    space: Any,
    *,
    trials: Any,
    objective: Any,
    direction: Any,
    sampler: Any,
    pruner: Any,
    cv: Any,
    steps: Any,
    at_once: Any,
    asynchronous: bool,
    seed: Any,
    others: list[str],
) -> Wanted:
    """From the arguments of `tenfold.tune`. What is wrong with them is one message, with the faults of `others`."""
    faults = [] if callable(task) else [f"task={task!r}: expected a Fit, or a function of a dict of parameters"]
    faults += lazy_faults("task", task)
    faults += suggestions.faults(trials=trials, steps=steps, at_once=at_once)
    found = checked(space, faults)
    sampler = Pbt() if sampler == "pbt" else suggestions.chosen(sampler, found, trials)
    fit = task if isinstance(task, Fit) else None
    scored = fit is not None and (fit.validation is not None or fit.validation_columns is not None or cv is not None)
    default = None if fit is None else "val_loss" if scored else "loss"
    looked_for, wrong = reading(objective, direction, default)
    faults += wrong
    if fit is not None and found is not None and not scored and "validation_rows" not in found.names:
        unscored = [name for name in looked_for.names if isinstance(name, str) and name.startswith("val_")]
        faults += [f"objective={name!r}: nothing is scored; give the Fit a validation=, or cv=" for name in unscored]
    if fit is not None and steps is not None:
        faults.append(f"steps={steps!r}: a Fit has its epochs; steps= is for functions")
    steps = fit.epochs if fit is not None else steps
    if isinstance(sampler, Pbt):
        faults += sampler.faults(trials, steps)
    else:
        faults += suggestions.check(sampler, found, trials, len(looked_for.names), besides=["pbt"])
    pruner = pruners.chosen(pruner)
    faults += pruners.check(pruner, steps)
    faults += _faults_together(fit, pruner, sampler, cv, steps, looked_for)
    parts = _folds(fit, cv, seed if isinstance(seed, int) and seed >= 0 else 0, faults)
    faults += others
    if faults:
        raise BadCall("; ".join(faults))
    assert found is not None
    if fit is not None and isinstance(pruner, pruners.Patience):
        fit, pruner = _patient(fit, pruner, looked_for), None
    return Wanted(
        task=Fits(fit, parts, prunes=pruner is not None) if fit is not None else Trying(task),
        space=found,
        trials=trials,
        objective=looked_for,
        sampler=sampler,
        pruner=pruner,
        folds=len(parts) if parts else None,
        steps=steps,
        at_once=at_once or (suggestions.EVERYTHING if isinstance(sampler, Pbt) else suggestions.at_once(sampler)),
        asynchronous=asynchronous,
    )


def _folds(fit: Fit | None, cv: Any, seed: int, faults: list[str]) -> list[folding.Fold] | None:
    if fit is None or cv is None or fit.data.streams:
        return None
    try:
        return folding.folds(cv, fit.data.x, fit.data.y, len(fit.data), seed)
    except BadCall as error:
        faults.append(str(error))
        return None


def _faults_together(
    fit: Fit | None, pruner: Any, sampler: Any, cv: Any, steps: Any, looked_for: Objective
) -> list[str]:
    """What does not go with what."""
    found = []
    if cv is not None and fit is None:
        found.append("cv=: folds are of a Fit; a function divides its rows itself")
    if cv is not None and fit is not None and fit.data.streams:
        found.append("cv=: folds need data that fits in memory, and this is streamed")
    if cv is not None and isinstance(pruner, pruners.Median):
        found.append("pruner=Median with cv=: folds would be stopped one by one; take Asha, which compares their means")
    if len(looked_for.names) > 1 and (pruner is not None or isinstance(sampler, Pbt)):
        found.append("objective=: with several, trials cannot be pruned; leave pruner= out")
    if getattr(pruner, "needs_steps", False) and steps is None:
        found.append(f"steps=None: {type(pruner).__name__} has to know how often a trial reports in all; give steps=")
    if pruner is not None and isinstance(sampler, Pbt):
        found.append("pruner=: with sampler='pbt', all trials go on; leave it out")
    if isinstance(pruner, pruners.Patience) and fit is not None and fit.stopping is not None:
        found.append("pruner=Patience: the Fit has an EarlyStopping already; leave one of them out")
    return found


def _patient(fit: Fit, pruner: pruners.Patience, looked_for: Objective) -> Fit:
    """A model that stops improving is given back as it was at its best."""
    found = copy.copy(fit)
    mode = "max" if looked_for.sign < 0 else "min"
    found.stopping = EarlyStopping(str(looked_for.names[0]), pruner.steps, pruner.min_delta, mode)
    return found
