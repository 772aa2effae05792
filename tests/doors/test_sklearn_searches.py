"""Searches over PyTorch estimators: all candidates are trained at once, and everything else is as scikit-learn's.

Those over Keras estimators are in `test_sklearn_keras_search.py`, those over any other in `test_sklearn_others.py`.
"""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
import sklearn
import sklearn_builds as builds
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tenfold.dispatch import progress
from tenfold.sklearn import GridSearch, RandomSearch, TorchClassifier, TorchRegressor

pytestmark = pytest.mark.usefixtures("one_thread")

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(66, 4))
NAMES = numpy.array(["low", "middle", "high"])[numpy.digitize(X[:, 0] + X[:, 1], (-0.6, 0.6))]
AMOUNTS = X[:, 0] - 2 * X[:, 1]
GRID = {"lr": [0.01, 0.05, 0.2], "width": [4, 8]}
QUIET: dict[str, Any] = {"progress": False}


def classifier(**settings: Any) -> TorchClassifier:
    return TorchClassifier(builds.torch_classes, **{"epochs": 4, "random_state": 0, **settings})


def check_same(ours: Any, theirs: Any, *, rtol: float = 1e-6) -> None:
    """Everything but times."""
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, values in theirs.cv_results_.items():
        found = ours.cv_results_[name]
        if name == "params" or name.startswith("param_"):
            assert list(found) == list(values), name
        elif not name.endswith("_time"):
            numpy.testing.assert_allclose(found, values, rtol=rtol, err_msg=name)
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_params_ == theirs.best_params_


def both(estimator: Any, grid: Any, *data: Any, params: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Our search, compared with scikit-learn's."""
    ours = GridSearch(estimator, grid, **QUIET, **settings).fit(*data, **(params or {}))
    theirs = GridSearchCV(estimator, grid, **settings).fit(*data, **(params or {}))
    check_same(ours, theirs)
    return ours, theirs


class Shifted(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Does with rows of training what it does not do with others, as TargetEncoder does. Nothing says it is fitted."""

    def fit(self, x: Any, y: Any = None) -> Shifted:
        return self

    def fit_transform(self, x: Any, y: Any = None) -> Any:
        return x + 3

    def transform(self, x: Any) -> Any:
        return x


# -- the same numbers -------------------------------------------------------------------------------------------------


def test_scores_and_the_best_estimator_are_those_of_grid_search_cv() -> None:
    ours, theirs = both(classifier(), GRID, X, NAMES, cv=3)
    numpy.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6)
    assert ours.score(X, NAMES) == theirs.score(X, NAMES)
    assert list(ours.classes_) == ["high", "low", "middle"]
    assert ours.best_estimator_.history_["loss"] == pytest.approx(theirs.best_estimator_.history_["loss"])
    assert (ours.cv_results_["mean_fit_time"] > 0).all()


def test_several_metrics_and_scores_on_training_rows() -> None:
    settings = {"scoring": ["accuracy", "neg_log_loss"], "refit": "neg_log_loss", "return_train_score": True}
    ours, _ = both(classifier(), GRID, X, NAMES, cv=3, **settings)
    assert "mean_train_neg_log_loss" in ours.cv_results_
    assert ours.multimetric_


def test_a_function_chooses_what_is_refitted_and_nothing_may_be() -> None:
    def worst(results: Any) -> int:
        return int(results["mean_test_score"].argmin())

    both(classifier(), GRID, X, NAMES, cv=3, refit=worst)
    ours = GridSearch(classifier(), {"lr": [0.01, 0.1]}, cv=2, refit=False, **QUIET).fit(X, NAMES)
    assert ours.best_params_ in ({"lr": 0.01}, {"lr": 0.1})
    assert not hasattr(ours, "best_estimator_")


def test_settings_of_training_may_be_searched_too() -> None:
    grid = [{"epochs": [1, 3], "batch_size": [16, 32]}, {"shuffle": [False], "class_weight": [None, "balanced"]}]
    both(classifier(), grid, X, NAMES, cv=KFold(3))


def test_a_random_search_tries_the_same_candidates() -> None:
    space = {"lr": list(numpy.geomspace(0.001, 0.3, 20)), "width": [4, 8]}
    settings = {"n_iter": 4, "random_state": 3, "cv": 2}
    ours = RandomSearch(classifier(), space, **settings, **QUIET).fit(X, NAMES)
    check_same(ours, RandomizedSearchCV(classifier(), space, **settings).fit(X, NAMES))


def test_a_regressor_and_a_score_of_ones_own() -> None:
    def off(estimator: Any, x: Any, y: Any) -> dict[str, float]:
        return {"mean": -abs(estimator.predict(x) - y).mean(), "worst": -abs(estimator.predict(x) - y).max()}

    estimator = TorchRegressor(builds.torch_numbers, epochs=3, random_state=0)
    both(estimator, {"lr": [0.01, 0.1]}, X, AMOUNTS, cv=3, scoring=off, refit="mean")


def test_groups_and_weights_reach_whom_they_are_for() -> None:
    groups = numpy.repeat(range(6), 11)
    weight = RNG.uniform(0.1, 3, 66)
    both(classifier(), GRID, X, NAMES, cv=GroupKFold(3), params={"groups": groups, "sample_weight": weight})


def test_a_fold_without_one_of_the_classes() -> None:
    order = numpy.argsort(NAMES, kind="stable")  # the first fold of three holds all of "high"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(classifier(), {"lr": [0.01, 0.1]}, X[order], NAMES[order], cv=KFold(3), scoring="accuracy")


def test_validation_and_early_stopping_stay_within_the_rows_of_training() -> None:
    import tenfold

    rule = tenfold.EarlyStopping(patience=0, min_delta=0.3)
    estimator = classifier(epochs=12, validation=0.25, callbacks=[rule])
    ours, _ = both(estimator, {"lr": [0.01, 0.1]}, X, NAMES, cv=3)
    assert len(ours.best_estimator_.history_["val_loss"]) < 12
    both(classifier(validation=(X[:9], NAMES[:9])), {"lr": [0.01, 0.1]}, X, NAMES, cv=3)


def test_a_pipeline_that_ends_with_an_estimator_of_ours() -> None:
    pipeline = make_pipeline(StandardScaler(), classifier())
    grid = {"torchclassifier__lr": [0.01, 0.1], "standardscaler__with_mean": [True, False]}
    ours, theirs = both(pipeline, grid, X * 5 + 1, NAMES, cv=3)
    numpy.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6)
    both(
        pipeline,
        grid,
        X * 5 + 1,
        NAMES,
        cv=3,
        scoring=lambda e, x, y: accuracy_score(y, e[-1].predict(e[:-1].transform(x))),
    )
    others = {"torchclassifier": [classifier(width=4), classifier(width=8, epochs=2)]}
    both(pipeline, others, X, NAMES, cv=2)


@pytest.mark.parametrize("more", [{}, {"return_train_score": True}], ids=["held out", "training too"])
def test_rows_of_training_are_what_fit_transform_makes_of_them(more: dict[str, Any]) -> None:
    first = X.copy()
    both(make_pipeline(Shifted(), classifier()), {"torchclassifier__lr": [0.01, 0.1]}, X, NAMES, cv=3, **more)
    assert numpy.array_equal(X, first), "what `transform` gave back is the caller's own"


def test_tables_lists_and_images() -> None:
    frame = pandas.DataFrame(X, columns=list("abcd"))
    ours, _ = both(classifier(), {"lr": [0.01, 0.1]}, frame, pandas.Series(NAMES), cv=3)
    assert list(ours.feature_names_in_) == list("abcd")
    both(classifier(), {"lr": [0.01, 0.1]}, X.tolist(), NAMES.tolist(), cv=3)
    images = RNG.normal(size=(66, 1, 6, 6)).astype("float32")
    both(TorchClassifier(builds.torch_images, random_state=0), {"lr": [0.01, 0.1]}, images, NAMES, cv=3)


def test_metadata_is_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = classifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weight = RNG.uniform(0.1, 3, 66)
        both(estimator, {"lr": [0.01, 0.1]}, X, NAMES, cv=3, params={"sample_weight": weight})


# -- how it is done ---------------------------------------------------------------------------------------------------


def test_no_model_is_built_in_the_callers_process(tmp_path: Path) -> None:
    def build(n_features: int, n_classes: int, lr: float) -> Any:
        (tmp_path / f"{os.getpid()}").touch()
        return builds.torch_classes(n_features, n_classes, lr)

    search = GridSearch(TorchClassifier(build, random_state=0), {"lr": [0.01, 0.1]}, cv=3, **QUIET).fit(X, NAMES)
    assert str(os.getpid()) not in os.listdir(tmp_path)
    search.predict(X)
    assert str(os.getpid()) in os.listdir(tmp_path)


@pytest.mark.parametrize("standing", [True, False])
def test_the_best_is_refitted_by_a_worker_of_the_search_where_all_have_the_same_settings(
    standing: bool, tmp_path: Path
) -> None:
    def build(n_features: int, n_classes: int, lr: float) -> Any:
        (tmp_path / f"{os.getpid()}").touch()
        return builds.torch_classes(n_features, n_classes, lr)

    grid = {"lr": [0.01, 0.1]} | ({} if standing else {"epochs": [1, 2]})
    search = GridSearch(TorchClassifier(build, random_state=0), grid, cv=3, scoring=lambda *_: 0.5, n_jobs=1, **QUIET)
    both(TorchClassifier(builds.torch_classes, random_state=0), grid, X, NAMES, cv=3)
    search.fit(X, NAMES)
    assert len(os.listdir(tmp_path)) == (1 if standing else 3)  # without: a search for each, and the first is refitted


@pytest.mark.parametrize(
    "steps",
    [(), (None,), (PCA(2), None), (Shifted(), None)],
    ids=["alone", "the only step", "after another", "after one without a state"],
)
def test_candidates_are_fused_and_the_rest_is_said(steps: tuple[Any, ...]) -> None:
    told: list[str] = []

    def how(estimator: Any, x: Any, y: Any) -> float:
        told.append((estimator[-1] if steps else estimator)._trained.result.how)
        return float(estimator.score(x, y))

    subject = make_pipeline(*steps[:-1], classifier()) if steps else classifier()
    grid = {"torchclassifier__lr" if steps else "lr": [0.01, 0.1]}
    GridSearch(subject, grid, cv=3, scoring=how, refit=False, **QUIET).fit(X, NAMES)
    assert len(told) == 6
    assert all(one.startswith("fused: 3 models") for one in told), told


def test_what_a_score_asks_beyond_predictions_is_there() -> None:
    def curious(estimator: Any, x: Any, y: Any) -> float:
        assert isinstance(estimator.model_, torch.nn.Module)
        assert estimator.predict(x[:3]).shape == (3,)
        again = estimator._trained.live.outputs(x)
        numpy.testing.assert_allclose(estimator._trained.outputs(x), again, rtol=1e-6)
        return float(estimator.score(x, y))

    search = GridSearch(classifier(), {"lr": [0.01, 0.1]}, cv=2, scoring=curious, error_score="raise", **QUIET)
    assert search.fit(X, NAMES).best_score_ > 0


def test_another_form_than_expected_is_found_out() -> None:
    hidden = getattr(builds, "torch_odds")

    def build(n_features: int, lr: float = 0.1) -> Any:
        return hidden(n_features, lr)  # nothing in this code tells what its loss is

    both(TorchClassifier(build, epochs=3, random_state=0), {"lr": [0.01, 0.1]}, X, X[:, 0] > 0, cv=3)


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_candidate_that_fails_has_the_error_score() -> None:
    search = GridSearch(
        TorchClassifier(builds.fails_at_three, random_state=0), {"width": [3, 4]}, cv=3, error_score=-1, **QUIET
    )
    with pytest.warns(FitFailedWarning, match=r"(?s)3 fits failed out of a total of 6.*three is too few"):
        search.fit(X, NAMES)
    assert search.cv_results_["split0_test_score"][0] == -1
    assert search.best_params_ == {"width": 4}


def test_a_failure_may_be_raised() -> None:
    search = GridSearch(TorchClassifier(builds.fails_at_three), {"width": [3, 4]}, cv=3, error_score="raise", **QUIET)
    with pytest.raises(RuntimeError, match="three is too few"):
        search.fit(X, NAMES)


def test_settings_that_cannot_work_fail_as_fits_do() -> None:
    search = GridSearch(classifier(), {"epochs": [0, 2]}, cv=2, **QUIET)
    with pytest.warns(UserWarning, match="non-finite"), pytest.warns(FitFailedWarning, match="epochs=0: expected a wh"):
        search.fit(X, NAMES)
    with pytest.raises(ValueError, match="has no such parameter"):
        GridSearch(classifier(), {"depth": [1]}, cv=2, **QUIET).fit(X, NAMES)


def test_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    estimator = TorchClassifier(builds.dies_once, epochs=3, random_state=0, folder=str(tmp_path))
    (tmp_path / "calm").mkdir()
    (tmp_path / "calm" / "died").touch()
    ours = GridSearch(estimator, {"lr": [0.01, 0.1]}, cv=3, **QUIET).fit(X, NAMES)
    assert (tmp_path / "died").exists()
    calm = clone(estimator).set_params(folder=str(tmp_path / "calm"))
    check_same(ours, GridSearchCV(calm, {"lr": [0.01, 0.1]}, cv=3).fit(X, NAMES))


# -- among others ------------------------------------------------------------------------------------------------------


def test_a_search_travels_and_is_cloned_and_nested() -> None:
    search = GridSearch(classifier(epochs=2), {"lr": [0.01, 0.1]}, cv=2, **QUIET)
    assert clone(search).get_params()["progress"] is False
    assert cross_val_score(search, X, NAMES, cv=2).shape == (2,)
    search.fit(X, NAMES)
    there = pickle.loads(pickle.dumps(search))
    numpy.testing.assert_array_equal(there.predict(X), search.predict(X))
    assert there.cv_results_["params"] == search.cv_results_["params"]


def test_progress_is_shown_unless_one_does_not_want_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY", 0.0)
    GridSearch(classifier(epochs=2), {"lr": [0.01, 0.1]}, cv=2, refit=False).fit(X, NAMES)
    assert "4/4 done" in capfd.readouterr().err
    GridSearch(classifier(epochs=2), {"lr": [0.01, 0.1]}, cv=2, refit=False, progress=False).fit(X, NAMES)
    assert capfd.readouterr().err == ""


def test_lines_of_verbose_name_the_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    grid = {"torchclassifier__lr": [0.01, 0.1]}
    GridSearch(make_pipeline(classifier()), grid, cv=2, verbose=2, **QUIET).fit(X, NAMES)
    told = capsys.readouterr().out
    assert told.count("torchclassifier__lr=0.01;") == told.count("torchclassifier__lr=0.1;") == 2
