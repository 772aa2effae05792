"""Searches over scikit-learn's own estimators: in processes, on every engine, with GridSearchCV's scores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn_fragile import Fragile

from tenfold.errors import TaskDied
from tenfold.sklearn import GridSearch, RandomSearch
from tenfold.sklearn.apart import _apart
from tenfold.sklearn.calls import Shared
from tenfold.sklearn.gathering import Call

X, Y = load_iris(return_X_y=True)
ORDER = numpy.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]


def check_same(ours: Any, theirs: Any) -> None:
    """To the last bit, but for times."""
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, values in theirs.cv_results_.items():
        found = ours.cv_results_[name]
        if name == "params" or name.startswith("param_"):
            assert list(found) == list(values), name
        elif not name.endswith("_time"):
            numpy.testing.assert_array_equal(found, values, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    numpy.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        pytest.param(SVC(), {"C": [0.1, 1, 10], "kernel": ["rbf", "linear"]}, id="SVC"),
        pytest.param(LogisticRegression(max_iter=500), {"C": [0.1, 1, 10]}, id="LogisticRegression"),
        pytest.param(
            RandomForestClassifier(n_estimators=10, random_state=0), {"max_depth": [2, 4]}, id="RandomForestClassifier"
        ),
        pytest.param(
            make_pipeline(PCA(2), SVC()), [{"svc__C": [0.1, 1]}, {"pca__n_components": [1, 3]}], id="Pipeline"
        ),
    ],
)
def test_scores_are_those_of_grid_search_cv(estimator: Any, grid: Any) -> None:
    settings = {"cv": 3, "return_train_score": True, "scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}
    ours = GridSearch(estimator, grid, **settings, progress=False).fit(X, Y)
    check_same(ours, GridSearchCV(estimator, grid, **settings).fit(X, Y))


def test_a_random_search_of_a_regressor_with_weights_groups_and_a_score_of_ones_own() -> None:
    def off(estimator: Any, x: Any, y: Any) -> float:
        return -float(abs(estimator.predict(x) - y).max())

    space = {"alpha": list(numpy.geomspace(1e-3, 1e3, 30))}
    given = {"groups": numpy.arange(150) % 10, "sample_weight": numpy.random.default_rng(1).uniform(size=150)}
    settings = {"n_iter": 5, "random_state": 1, "cv": GroupKFold(5), "scoring": off}
    ours = RandomSearch(Ridge(), space, **settings, progress=False)
    theirs = RandomizedSearchCV(Ridge(), space, **settings)
    for search in (ours, theirs):
        with pytest.warns(UserWarning, match="does not support sample_weight"):
            search.fit(X, Y, **given)
    check_same(ours, theirs)


def test_a_killed_worker_is_tried_again(tmp_path: Path) -> None:
    grid = {"C": [1, 2]}
    ours = GridSearch(Fragile(str(tmp_path)), grid, cv=3, progress=False).fit(X, Y)
    assert (tmp_path / "0").exists()
    check_same(ours, GridSearchCV(Fragile(times=0), grid, cv=3).fit(X, Y))


def test_who_kills_every_worker_has_the_error_score(tmp_path: Path) -> None:
    search = GridSearch(Fragile(str(tmp_path), times=99), {"C": [1, 2]}, cv=2, error_score=-1.0, progress=False)
    with pytest.warns(FitFailedWarning, match=r"(?s)2 fits failed.*{'C': 2} on fold 1 of 2"):
        search.fit(X, Y)
    assert search.cv_results_["mean_test_score"][1] == -1
    search.set_params(error_score="raise")
    with pytest.raises(TaskDied):
        search.fit(X, Y)


def test_errors_are_those_of_the_estimator() -> None:
    search = GridSearch(SVC(), {"C": [-1, 1]}, cv=2, progress=False)
    with (
        pytest.warns(UserWarning, match="non-finite"),
        pytest.warns(FitFailedWarning, match="The 'C' parameter of SVC"),
    ):
        search.fit(X, Y)
    assert search.best_params_ == {"C": 1}
    with pytest.raises(ValueError, match="The 'C' parameter of SVC must be a float"):
        search.set_params(error_score="raise").fit(X, Y)


def test_other_parallel_work_of_scikit_learn_is_left_alone() -> None:
    """The refitted forest, and one that is fitted afterwards, use joblib as ever."""
    forest = RandomForestClassifier(n_estimators=4, random_state=0, n_jobs=2)
    ours = GridSearch(forest, {"max_depth": [2]}, cv=2, progress=False).fit(X, Y)
    numpy.testing.assert_array_equal(ours.predict(X), forest.set_params(max_depth=2).fit(X, Y).predict(X))


class Told:
    """A callback of scikit-learn's that writes down whose tasks it is told of, also in workers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def setup(self, estimator: Any, context: Any) -> None:
        self._write("setup", estimator)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self._write("begin", estimator)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self._write("end", estimator)

    def teardown(self, estimator: Any, context: Any) -> None:
        self._write("teardown", estimator)

    def _write(self, what: str, estimator: Any) -> None:
        with self._path.open("a") as file:
            file.write(f"{what} {type(estimator).__name__}\n")


def test_callbacks_of_scikit_learn_are_told_of_every_fit(tmp_path: Path) -> None:
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    search = GridSearch(SVC(), {"C": [0.1, 1, 10]}, cv=2, progress=False)
    assert search.set_callbacks(Told(tmp_path / "log")).fit(X, Y).best_score_ > 0.9
    tasks = 1 + 1 + 3 * 2 + 1  # all of it, the search, its fits, and the last one on all rows
    told = Counter((tmp_path / "log").read_text().split(" GridSearch\n"))
    assert told == {"setup": 1, "begin": tasks, "end": tasks, "teardown": 1, "": 1}


def test_what_calls_share_travels_once() -> None:
    x, train = object(), object()
    calls = [Call(print, (number, x), {"train": train, "test": None, "own": object()}) for number in range(3)]
    shared, items = _apart(calls)
    assert {id(value) for value in shared} == {id(print), id(x), id(train)}
    for item in items:
        assert isinstance(item.function, Shared)
        assert isinstance(item.args[1], Shared)
        assert isinstance(item.kwargs["train"], Shared)
        assert not isinstance(item.kwargs["own"], Shared)
    assert [item.args[0] for item in items] == [0, 1, 2]
