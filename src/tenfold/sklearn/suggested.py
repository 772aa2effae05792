"""`Search`: candidates as a sampler suggests them, and as a pruner lets them go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _insert_error_scores, _warn_or_raise_about_fit_failures
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from tenfold.errors import BadCall
from tenfold.search import pruners, suggestions
from tenfold.search.course import Search as Course
from tenfold.search.legs import Legs
from tenfold.search.space import Space, checked
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End
from tenfold.sklearn import placing
from tenfold.sklearn.estimator import Estimator
from tenfold.sklearn.gathering import Call
from tenfold.sklearn.search import Evaluate, Searching
from tenfold.work.leg import Leg, Why


class Search(Searching, BaseSearchCV):  # type: ignore[misc]
    """A search of scikit-learn's, whose candidates come from a sampler; with a pruner, most are given up early.

    estimator      any of scikit-learn's; to be pruned, one of ours, or a pipeline that ends with one
    space          name -> tenfold.uniform, loguniform, integer, logint, choice, constant, or a list of values
    trials, sampler, pruner, at_once    as of tenfold.tune; pruner="asha" or "hyperband": candidates are compared after
                   1, 3, 9 ... epochs, and go on from where they were
    random_state   of the sampler
    scoring ... return_train_score    as of GridSearchCV; n_jobs is how many at once, None and -1 for as many as fit
    engine, progress, retries, cpus, gpus, memory    as of tenfold.map, for each fit
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any],
        *,
        trials: int | None = None,
        sampler: Any = None,
        pruner: Any = None,
        at_once: int | None = None,
        random_state: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        error_score: float | str = numpy.nan,
        return_train_score: bool = False,
        engine: Any = None,
        progress: bool | None = None,
        retries: int = 1,
        cpus: float = 1,
        gpus: float = 0,
        memory: int | str | None = None,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.trials = trials
        self.sampler = sampler
        self.pruner = pruner
        self.at_once = at_once
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.retries = retries
        self.cpus = cpus
        self.gpus = gpus
        self.memory = memory

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:  # noqa: N803
        """Fit candidates as they are suggested, and the best one on all rows. Arguments as scikit-learn's."""
        self._look()
        return super().fit(X, y, **params)

    def _look(self) -> None:
        """Refuse what cannot work, all of it in one message."""
        faults = suggestions.faults(trials=self.trials, at_once=self.at_once)
        space = checked(self.space, faults)
        pruner = pruners.chosen(self.pruner)
        faults += suggestions.check(suggestions.chosen(self.sampler, space, self.trials), space, self.trials, 1)
        faults += pruners.check(pruner, self._ours[1] if self._ours is not None else None)
        if pruner is not None and not isinstance(pruner, pruners.Asha | pruners.Hyperband):
            faults.append(f"pruner={self.pruner!r}: a search compares candidates between epochs; 'asha', 'hyperband'")
        if pruner is not None and self._ours is None:
            faults.append(
                f"pruner={self.pruner!r}: {type(self.estimator).__name__} cannot go on from where it was; "
                "take a KerasClassifier, or leave pruner= out"
            )
        elif pruner is not None:
            faults += self._faults_of_epochs(space)
        if isinstance(self.scoring, list | tuple | dict | Set) and not isinstance(self.refit, str):
            faults.append(f"refit={self.refit!r}: with several metrics, say which one is looked for, by its name")
        if faults:
            raise BadCall("; ".join(faults))

    def _faults_of_epochs(self, space: Space | None) -> list[str]:
        """How many there are is up to the pruner, and must be known to it."""
        assert self._ours is not None
        name = self._ours[0]
        last = self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator
        found = [f"space: {name}: with pruner=, epochs are the estimator's"] if space and name in space.names else []
        if "epochs" in (last.fit_kwargs or {}):
            found.append(f"fit_kwargs={dict(last.fit_kwargs)!r}: with pruner=, give epochs= instead")
        return found

    @property
    def _ours(self) -> tuple[str, int] | None:
        """What the estimator's epochs are called in a candidate, and how many; None for one that has none."""
        name, last = ("", self.estimator)
        if isinstance(self.estimator, Pipeline):
            name, last = self.estimator.steps[-1]
        if not isinstance(last, Estimator):
            return None
        return f"{name}__epochs" if name else "epochs", int(last.get_params(deep=False)["epochs"])

    @property
    def _pruned(self) -> tuple[str, int] | None:
        """The same, where candidates are given up between epochs."""
        return self._ours if self.pruner is not None else None

    def _run_search(self, evaluate_candidates: Evaluate, callback_ctx: Any = None) -> None:
        self._leave()
        space = Space(self.space)
        sampler = suggestions.chosen(self.sampler, space, self.trials)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        suggested = Suggestions(space, sampler, seed, ["maximize"])
        epochs = self._pruned[1] if self._pruned is not None else None
        decides = pruners.Never() if epochs is None else pruners.chosen(self.pruner).pruner(epochs)
        course = Course(suggested, decides, Legs(None, folds=None, numbered=True), trials=self.trials, sign=-1)
        most = self.at_once or suggestions.at_once(sampler)
        folds = Folds(self._checked_cv_orig)
        self._rounds = Rounds(self.error_score)
        try:
            with placing.on_rungs(epochs) as rungs:
                while legs := _next(course, most):
                    if rungs is not None:
                        rungs.trials = [leg.trial for leg in legs]
                    self._tell(course, legs, evaluate_candidates(self._candidates(legs), cv=folds))
            self._rounds.close()
        finally:
            del self._rounds

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        return self._rounds.taken(super()._run(calls))

    def _candidates(self, legs: Sequence[Leg]) -> list[dict[str, Any]]:
        if self._pruned is None:
            return [leg.params for leg in legs]
        name, most = self._pruned
        return [{**leg.params, name: leg.stop or most} for leg in legs]

    def _tell(self, course: Course, legs: Sequence[Leg], results: Mapping[str, Any]) -> None:
        column = f"mean_test_{self.refit}"
        if column not in results:
            column = "mean_test_score"  # of one metric, whatever it is called; or no fit has told yet which there are
        if column not in results:
            raise BadCall(f"refit={self.refit!r}: with several metrics, say which one is looked for, by its name")
        for leg, score in zip(legs, results[column][-len(legs) :], strict=True):
            steps = leg.stop or (self._pruned[1] if self._pruned is not None else 1)
            failed = "its score is not a number" if numpy.isnan(score) else None
            why: Why | None = "paused" if leg.stop is not None else "finished"
            end = End(
                0, None if failed else why, None if failed else (float(score),), {steps: float(score)}, error=failed
            )
            course.tell(leg.trial, [end])

    def _select_best_index(self, refit: Any, refit_metric: str, results: Mapping[str, Any]) -> int:
        """Of those that came to their end."""
        if callable(refit) or self._pruned is None:
            return int(BaseSearchCV._select_best_index(refit, refit_metric, results))
        name, most = self._pruned
        arrived = numpy.array([params[name] == most for params in results["params"]])
        scores = numpy.where(arrived, results[f"mean_test_{refit_metric}"], -numpy.inf)
        return int(numpy.nanargmax(scores))


class Rounds:
    """What became of the fits of all rounds.

    scikit-learn judges each round by itself: one in which every fit has failed would end the search, and the last round
    is often one of a single candidate. So it is not told of failures before the end, and then of all at once.
    """

    def __init__(self, error_score: float | str) -> None:
        self._error_score = error_score
        self._every: list[dict[str, Any]] = []
        self._errors: list[str | None] = []

    def taken(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results of one round, none of which says that it has failed."""
        self._every += found
        self._errors += [result["fit_error"] for result in found]
        self._say(self._errors)
        _insert_error_scores(self._every, self._error_score)  # a failed fit cannot know which metrics a function has
        self._say([None] * len(self._every))
        return found

    def close(self) -> None:
        """Warn of those that failed; raise where all did."""
        self._say(self._errors)
        _warn_or_raise_about_fit_failures(self._every, self._error_score)

    def _say(self, errors: Sequence[str | None]) -> None:
        for result, error in zip(self._every, errors, strict=True):
            result["fit_error"] = error


class Folds:
    """The folds of all rounds of a search: a splitter that shuffles without a seed would make others for each."""

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._made: list[Any] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:  # noqa: N803
        """As the splitter did at first; the rows are always those of one search."""
        if self._made is None:
            self._made = list(self._splitter.split(X, y, **params))
        return self._made


def _next(course: Course, most: int) -> list[Leg]:
    found: list[Leg] = []
    while len(found) < most and (legs := course.next()) is not None:
        found += legs
    return found
