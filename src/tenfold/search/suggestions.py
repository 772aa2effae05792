"""New trials: Optuna's samplers, asked in a fixed order.

Trials that are still running are known to be (Optuna's constant liar), so that suggestions made at the same time do
not fall on one another. A trial that was paused counts at once, with what it had reached. When it goes on and gets
further, Optuna would not hear of it; so it is told all trials anew before it is asked again.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenfold.machine.installed import imported, missing
from tenfold.search.space import Space
from tenfold.work import seeds

if TYPE_CHECKING:
    import optuna

NAMES = ("tpe", "random", "grid", "qmc", "gp", "cma-es", "nsga")
UNINFORMED = ("random", "grid", "qmc")
"""Whose suggestions do not depend on what became of the earlier ones: all can be asked for at once."""
AT_ONCE = 16  # of the others: the same on every machine, and so the same study
EVERYTHING = 10**9


def library() -> Any:
    """Optuna; a clear error where it is not installed."""
    return imported("optuna", "Optuna, which tenfold.tune needs,", "tune")


_quiet = threading.RLock()  # both are of the process: studies in several threads would put back each other's


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Optuna logs every trial, and warns of what is experimental."""
    optuna = library()
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(level)


class Suggestions:
    """Parameters for one trial after the other."""

    def __init__(
        self,
        space: Space,
        sampler: Any,
        seed: int,
        directions: Sequence[str],
        known: Mapping[int, dict[str, Any]] | None = None,
    ) -> None:
        """`known`: trials whose parameters are not a question any more. Others than those are suggested besides."""
        self._space = space
        self._directions = list(directions)
        self._informed = is_informed(sampler)
        self._points = space.labels() if sampler == "grid" else None
        with quiet():
            # Known trials draw no random numbers: with the same ones, the others would be the same trials again.
            self._sampler = _sampler(sampler, seeds.number(seed, len(known)) if known else seed)
            if known and not isinstance(sampler, str):
                self._sampler.reseed_rng()
            self._study = self._new()
        self._trials: list[Any] = []  # as Optuna keeps them
        self._news: set[int] = set()  # trials of which the study does not know what they were told last
        self._known = known or {}

    def _new(self) -> optuna.Study:
        return library().create_study(directions=self._directions, sampler=self._sampler)

    def ask(self) -> dict[str, Any] | None:
        """The next trial's parameters; None where there is nothing left to try."""
        with quiet():
            if self._news:
                self._catch_up()
            if self._points is not None:
                if not self._points:
                    return None
                self._study.enqueue_trial(self._points.pop(0))
            elif len(self._trials) in self._known:
                self._study.enqueue_trial(self._space.known(self._known[len(self._trials)]))
            params = self._space.suggest(self._study.ask())
            self._trials.append(self._study.get_trials(deepcopy=False)[-1])
            return params

    def tell(self, trial: int, values: Sequence[float] | None, curve: Mapping[int, float], *, complete: bool) -> None:
        """What became of a trial so far; without values, it failed."""
        self._trials[trial] = frozen = copy.copy(self._trials[trial])
        states = library().trial.TrialState
        known = values is not None and not any(map(math.isnan, values))
        frozen.state = (states.COMPLETE if complete else states.PRUNED) if known else states.FAIL
        frozen.values = list(values) if complete and known and values is not None else None
        frozen.intermediate_values = dict(curve) if len(self._directions) == 1 else {}
        frozen.datetime_complete = datetime.datetime.now()
        if self._informed:
            self._news.add(trial)

    def _catch_up(self) -> None:
        """Have the study know what was told: a trial that went on is one that it takes for ended, so it is made anew.

        That copies all trials, so it is left out where none went on: TPE keeps nothing in a study that this would miss.
        """
        running, study = library().trial.TrialState.RUNNING, self._study
        known = study.get_trials(deepcopy=False)
        if type(self._sampler) is library().samplers.TPESampler and all(known[n].state == running for n in self._news):
            for number in sorted(self._news):
                place, told = known[number]._trial_id, self._trials[number]
                for step, value in told.intermediate_values.items():
                    study._storage.set_trial_intermediate_value(place, step, value)
                study._storage.set_trial_state_values(place, told.state, told.values)
        else:
            self._study = self._new()
            self._study.add_trials(self._trials)
        self._news.clear()

    def moved(self, trial: int, donor: int, params: Mapping[str, Any]) -> None:
        """A trial goes on with other parameters, which come from the donor's."""
        self._trials[trial] = frozen = copy.copy(self._trials[trial])
        frozen.distributions = dict(self._trials[donor].distributions)
        frozen.params = self._space.known(params)

    def study(self) -> optuna.Study:
        """All trials as a study of Optuna's own."""
        with quiet():
            found = library().create_study(directions=self._directions)
            found.add_trials(self._trials)
        return found


def chosen(wanted: Any, space: Space | None, trials: Any) -> Any:
    """The sampler of a caller who may not have said which: all points of a space that has few, or tpe."""
    return wanted or ("grid" if trials is None and (space is None or space.is_grid) else "tpe")


def at_once(sampler: Any) -> int:
    """Trials to ask for before the first is told of."""
    return AT_ONCE if is_informed(sampler) else EVERYTHING


def is_informed(sampler: Any) -> bool:
    """Whether what it suggests depends on what became of the earlier trials."""
    if isinstance(sampler, str):
        return sampler not in UNINFORMED
    samplers = library().samplers
    # One of these counts in its study how far it is, and would begin again in a new one.
    return not isinstance(sampler, samplers.QMCSampler | samplers.RandomSampler)


def _sampler(wanted: Any, seed: int) -> Any:
    samplers = library().samplers
    if isinstance(wanted, samplers.BaseSampler):
        own = copy.deepcopy(wanted)  # its random numbers go on: the next study with it would be another one
        _seed(own, seed % 2**32)
        return own
    makers = {
        "tpe": lambda: samplers.TPESampler(seed=seed, constant_liar=True),
        "random": lambda: samplers.RandomSampler(seed=seed),
        "grid": lambda: samplers.RandomSampler(seed=seed),  # never asked: every point is given
        "qmc": lambda: samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False),
        "gp": lambda: samplers.GPSampler(seed=seed, warn_independent_sampling=False),
        "cma-es": lambda: samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        "nsga": lambda: samplers.NSGAIISampler(seed=seed),
    }
    try:
        return makers[wanted]()
    except ImportError as error:
        raise missing(f"what sampler={wanted!r} needs ({error})", "tune") from error


def _seed(sampler: Any, seed: int) -> None:
    """Where it has none: it would draw one in each process, and a study could not be continued."""
    samplers = library().samplers
    for value in vars(sampler).values():
        if getattr(value, "_rng", sampler) is None:  # Optuna's lazy random state, not yet made
            value.rng.seed(seed)
        elif isinstance(value, samplers.BaseSampler):
            own = getattr(value, "_rng", None)
            if isinstance(sampler, samplers.QMCSampler) and getattr(own, "_rng", sampler) is None:
                sampler._seed = seed  # was drawn when it was made
            _seed(value, seed)


def faults(**counts: Any) -> list[str]:
    """What is wrong with numbers of trials or steps, in words."""
    return [
        f"{name}={value!r}: expected a whole number above 0"
        for name, value in counts.items()
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1)
    ]


def check(wanted: Any, space: Space | None, trials: Any, objectives: int, *, besides: Sequence[str] = ()) -> list[str]:
    """What is wrong with a sampler for a space, in words; of a space that is wrong itself, nothing is asked.

    `besides`: names of samplers that the caller has of its own.
    """
    named = isinstance(wanted, str)
    if named and wanted not in NAMES:
        names = ", ".join(map(repr, (*NAMES, *besides)))
        return [f"sampler={wanted!r}: expected one of {names}, or a sampler of Optuna's"]
    if not named and not isinstance(wanted, library().samplers.BaseSampler):
        return [f"sampler={wanted!r}: expected a name, or a sampler of Optuna's"]
    found = []
    if wanted == "grid" and space is not None and not space.is_grid:
        found.append("sampler='grid': the space has ranges of numbers; give lists of values instead")
    if wanted != "grid" and trials is None:
        found.append(f"trials=None: expected how many to try; only sampler='grid' has an end, and this is {wanted!r}")
    if objectives > 1 and wanted == "cma-es":
        found.append(f"sampler={wanted!r}: knows one objective, and there are {objectives}; take 'nsga'")
    return found
