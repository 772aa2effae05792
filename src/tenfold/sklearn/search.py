"""scikit-learn's searches, with all candidates trained at once. Everything else about them is scikit-learn's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import joblib
import numpy
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

from tenfold.errors import BadCall
from tenfold.sklearn import apart, fused, placing
from tenfold.sklearn.gathering import Call, Gathering
from tenfold.sklearn.lessons import takes

Evaluate = Callable[..., Any]
"""Takes candidates, each a dict of parameters; returns the results so far."""


class Searching:
    """What the searches share: who fits the candidates. Comes before a search of scikit-learn among the bases."""

    n_jobs: int | None
    engine: Any
    progress: bool | None
    retries: int
    cpus: float
    gpus: float
    memory: int | str | None

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:  # noqa: N803
        """Fit every candidate on every fold, all at once, and the best one on all rows. Arguments as scikit-learn's."""
        jobs = self.n_jobs
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or (jobs < 1 and jobs != -1)):
            raise BadCall(f"n_jobs={jobs!r}: expected a whole number above 0; None or -1 for as many as fit")
        config = joblib.parallel_config(backend=Gathering(self._run))
        self._left = config.unregister
        try:
            with placing.by_map(self._where()):
                return super().fit(X, y, **params)  # type: ignore[misc]
        finally:
            self._leave()

    def _leave(self) -> None:
        """The search's own Parallel has its backend. Others that may come, in a forest, are no business of ours."""
        if "_left" in self.__dict__:
            self.__dict__.pop("_left")()

    def _run_search(self, evaluate_candidates: Evaluate, callback_ctx: Any = None) -> None:
        self._leave()
        if callback_ctx is None:  # scikit-learn before 1.9
            super()._run_search(evaluate_candidates)  # type: ignore[misc]
        elif getattr(self, "_skl_callbacks", None):
            super()._run_search(evaluate_candidates, callback_ctx=callback_ctx)  # type: ignore[misc]
        else:
            # Each call would have all others with it, in its context, for nobody.
            alone = partial(_without_context, evaluate_candidates)
            super()._run_search(alone, callback_ctx=callback_ctx)  # type: ignore[misc]

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        if takes(calls):
            return fused.run(calls, self._where())
        return apart.run(calls, self._where())

    def _where(self) -> dict[str, Any]:
        """What `tenfold.map` is called with."""
        found = {name: getattr(self, name) for name in ("engine", "progress", "retries", "cpus", "gpus", "memory")}
        return found | ({"workers": self.n_jobs} if self.n_jobs is not None and self.n_jobs > 0 else {})


def _without_context(evaluate: Evaluate, candidates: Any, *, callback_ctx: Any, **more: Any) -> Any:
    return evaluate(candidates, **more)


class GridSearch(Searching, GridSearchCV):  # type: ignore[misc]
    """GridSearchCV, with all candidates and folds at once: fused for our estimators, in processes for others.

    estimator ... return_train_score    as of GridSearchCV; n_jobs is how many at once, None and -1 for as many as fit
    engine, progress, retries, cpus, gpus, memory    as of tenfold.map, for each fit
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
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
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.engine = engine
        self.progress = progress
        self.retries = retries
        self.cpus = cpus
        self.gpus = gpus
        self.memory = memory


class RandomSearch(Searching, RandomizedSearchCV):  # type: ignore[misc]
    """RandomizedSearchCV, with all candidates and folds at once: fused for our estimators, in processes for others.

    estimator ... return_train_score    as of RandomizedSearchCV; n_jobs is how many at once, None and -1 for as many
                                        as fit
    engine, progress, retries, cpus, gpus, memory    as of tenfold.map, for each fit
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_iter: int = 10,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
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
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            random_state=random_state,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.engine = engine
        self.progress = progress
        self.retries = retries
        self.cpus = cpus
        self.gpus = gpus
        self.memory = memory
