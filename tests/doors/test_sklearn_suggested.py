"""`tenfold.sklearn.Search`: suggested candidates, pruned ones, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import sklearn_builds
import torch._dynamo  # noqa: F401  # sets a variable of the environment, now rather than in a test
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import tenfold
from tenfold.errors import BadCall
from tenfold.sklearn import GridSearch, Search, TorchClassifier

SPACE = {"C": tenfold.loguniform(1e-2, 1e2), "gamma": tenfold.loguniform(1e-3, 1.0)}


@pytest.fixture(scope="module")
def iris() -> tuple[numpy.ndarray, numpy.ndarray]:
    x, y = load_iris(return_X_y=True)
    return x.astype("float32"), y


def torch_estimator(epochs: int) -> TorchClassifier:
    return TorchClassifier(sklearn_builds.torch_classes, epochs=epochs, batch_size=16, random_state=0)


def test_candidates_of_a_sampler_are_scored_as_scikit_learn_does(iris: tuple[Any, Any]) -> None:
    search = Search(SVC(), SPACE, trials=12, sampler="tpe", cv=3, random_state=0, progress=False, at_once=4).fit(*iris)
    assert len(search.cv_results_["params"]) == 12
    values = [{name: [value] for name, value in params.items()} for params in search.cv_results_["params"]]
    grid = GridSearch(SVC(), values, cv=3, progress=False).fit(*iris)
    numpy.testing.assert_array_equal(search.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"])
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    again = clone(search).fit(*iris)
    assert again.cv_results_["params"] == search.cv_results_["params"]


def test_a_grid_needs_no_number_of_trials(iris: tuple[Any, Any]) -> None:
    search = Search(SVC(), {"C": [0.1, 1, 10], "kernel": ["rbf", "linear"]}, cv=3, progress=False).fit(*iris)
    assert len(search.cv_results_["params"]) == 6


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_pruned_candidates_go_on_and_end_as_if_trained_at_once(iris: tuple[Any, Any], in_pipeline: bool) -> None:
    estimator: Any = torch_estimator(epochs=9)
    prefix = ""
    if in_pipeline:
        estimator, prefix = make_pipeline(StandardScaler(), estimator), "torchclassifier__"
    space = {f"{prefix}lr": tenfold.loguniform(1e-4, 1e-1)}
    search = Search(
        estimator, space, trials=9, sampler="random", pruner="asha", cv=3, random_state=0, progress=False
    ).fit(*iris)
    epochs = [params[f"{prefix}epochs"] for params in search.cv_results_["params"]]
    assert epochs == [1] * 9 + [3] * 3 + [9]
    assert search.best_params_[f"{prefix}epochs"] == 9
    rate = search.best_params_[f"{prefix}lr"]
    whole = GridSearch(estimator, {f"{prefix}lr": [rate]}, cv=3, progress=False).fit(*iris)
    assert search.cv_results_["mean_test_score"][-1] == pytest.approx(whole.best_score_, abs=1e-6)
    assert search.best_estimator_.score(*iris) > 0.5


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_rounds_that_fail_as_a_whole_are_candidates_that_failed(iris: tuple[Any, Any]) -> None:
    def build(n_features: int, n_classes: int, width: int) -> Any:
        if width > 4:
            raise RuntimeError("too wide")
        return sklearn_builds.torch_classes(n_features, n_classes, width=width)

    def scores(estimator: Any, x: Any, y: Any) -> dict[str, float]:
        return {"right": estimator.score(x, y)}

    more: dict[str, Any] = {"cv": 2, "at_once": 1, "engine": "serial", "progress": False}
    estimator = TorchClassifier(build, random_state=0)
    for scoring, name in ((None, "score"), (scores, "right")):
        search = Search(estimator, {"width": [8, 3, 9]}, scoring=scoring, refit=name, **more)
        with pytest.warns(FitFailedWarning, match=r"(?s)4 fits failed out of a total of 6.*too wide"):
            search.fit(*iris)
        assert search.best_params_ == {"width": 3}
        assert list(numpy.isnan(search.cv_results_[f"mean_test_{name}"])) == [True, False, True]
    with pytest.raises(ValueError, match=r"(?s)All the 4 fits failed.*too wide"):
        Search(estimator, {"width": [8, 9]}, **more).fit(*iris)


def test_everything_that_cannot_work_is_one_message(iris: tuple[Any, Any]) -> None:
    with pytest.raises(BadCall, match=r"sampler='best'.*pruner='median'.*SVC cannot go on"):
        Search(SVC(), SPACE, trials=3, sampler="best", pruner="median").fit(*iris)
    with pytest.raises(BadCall, match="the first must be below the second"):
        Search(SVC(), {"C": tenfold.uniform(1, 0)}, trials=3).fit(*iris)
    with pytest.raises(BadCall, match=r"sampler='pbt': expected one of 'tpe'.*'nsga', or a sampler of Optuna's"):
        Search(SVC(), SPACE, trials=3, sampler="pbt").fit(*iris)
    with pytest.raises(BadCall, match="trials=None"):
        Search(SVC(), SPACE).fit(*iris)
    with pytest.raises(
        BadCall, match=r"trials=0: .*at_once=-1: .*below the second.*sampler='best'.*refit=True: with sev"
    ):
        Search(SVC(), {"C": tenfold.uniform(1, 0)}, trials=0, at_once=-1, sampler="best", scoring=["accuracy"]).fit(
            *iris
        )
    for jobs in ("a", 0, -2):
        with pytest.raises(BadCall, match=f"n_jobs={jobs!r}: expected a whole number above 0; None or -1"):
            Search(SVC(), SPACE, trials=2, n_jobs=jobs).fit(*iris)  # type: ignore[arg-type]


def test_epochs_are_the_pruners(iris: tuple[Any, Any]) -> None:
    estimator: Any = TorchClassifier(sklearn_builds.torch_classes, fit_kwargs={"epochs": 9})
    told = r"fit_kwargs=\{'epochs': 9\}: with pruner=, give epochs= instead"
    with pytest.raises(BadCall, match=told):
        Search(estimator, {"lr": [0.1]}, pruner="asha").fit(*iris)
    pipeline = make_pipeline(StandardScaler(), estimator)
    with pytest.raises(BadCall, match=f"torchclassifier__epochs: with pruner=, epochs are the estimator's; {told}"):
        Search(pipeline, {"torchclassifier__epochs": [2, 3]}, pruner="asha").fit(*iris)


def test_several_metrics_need_the_one_that_is_looked_for(iris: tuple[Any, Any]) -> None:
    scoring = ["accuracy", "f1_macro"]
    search = Search(SVC(), SPACE, trials=3, scoring=scoring, refit="f1_macro", cv=3, progress=False).fit(*iris)
    assert search.best_score_ == max(search.cv_results_["mean_test_f1_macro"])
    with pytest.raises(BadCall, match="say which one"):
        Search(SVC(), SPACE, trials=3, scoring=scoring, refit=False).fit(*iris)
