"""A pruned `Search` trains each epoch of a candidate once, also where the seed and the folds are nobody's choice."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy
import pytest
import sklearn_builds
import torch._dynamo  # noqa: F401  # sets a variable of the environment, now rather than in a test
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold

import tenfold
from tenfold.sklearn import Search, TorchClassifier

FOLDS = 3
ROWS = 100  # of a fold: one batch, so that an epoch is one step
ASHA = {"trials": 9, "sampler": "random", "pruner": "asha", "random_state": 0, "progress": False, "refit": False}


@pytest.fixture(scope="module")
def iris() -> tuple[numpy.ndarray, numpy.ndarray]:
    x, y = load_iris(return_X_y=True)
    return x.astype("float32"), y


@pytest.mark.parametrize("build", [sklearn_builds.torch_counted, sklearn_builds.torch_counted_schedule])
def test_no_epoch_is_trained_twice(iris: tuple[Any, Any], tmp_path: Path, build: Any) -> None:
    steps = tmp_path / "steps"
    estimator = TorchClassifier(build, epochs=9, batch_size=ROWS, file=str(steps))
    space = {"lr": tenfold.loguniform(1e-3, 1e-1)}
    search = Search(estimator, space, cv=KFold(FOLDS, shuffle=True), **ASHA).fit(*iris)
    assert [params["epochs"] for params in search.cv_results_["params"]] == [1] * 9 + [3] * 3 + [9]
    assert len(steps.read_text().splitlines()) == FOLDS * (9 * 1 + 3 * 2 + 1 * 6)


def test_equal_candidates_go_on_from_their_own_weights(iris: tuple[Any, Any], tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    estimator = TorchClassifier(sklearn_builds.torch_counted, epochs=9, batch_size=ROWS, file=str(steps))
    Search(estimator, {"lr": tenfold.constant(0.01)}, cv=FOLDS, **ASHA).fit(*iris)
    assert len(steps.read_text().splitlines()) == FOLDS * (9 * 1 + 3 * 2 + 1 * 6)


def test_who_stopped_early_is_not_trained_again(iris: tuple[Any, Any], tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    stopping = tenfold.EarlyStopping("loss", patience=1, min_delta=1e-3)
    estimator = TorchClassifier(
        sklearn_builds.torch_counted, epochs=9, batch_size=ROWS, file=str(steps), callbacks=[stopping]
    )
    search = Search(estimator, {"lr": tenfold.constant(0.0)}, cv=FOLDS, **ASHA).fit(*iris)
    assert len(search.cv_results_["params"]) == 13
    assert len(steps.read_text().splitlines()) == FOLDS * (9 * 1 + 3 * 1), "the second epoch is no better: the last"


def test_fused_models_go_on_with_the_seed_and_the_rows_that_they_had(iris: tuple[Any, Any]) -> None:
    seen: defaultdict[tuple[float, bytes], list[Any]] = defaultdict(list)

    def noted(estimator: Any, x: numpy.ndarray, y: numpy.ndarray) -> float:
        result = estimator._trained.result
        assert result.how.startswith("fused"), result.how
        seen[result.params["lr"], x.tobytes()].append(result)
        return float(estimator.score(x, y))

    estimator = TorchClassifier(sklearn_builds.torch_classes, epochs=9, batch_size=16)
    space = {"lr": tenfold.loguniform(1e-3, 1e-1)}
    Search(estimator, space, cv=KFold(FOLDS, shuffle=True), scoring=noted, **ASHA).fit(*iris)
    assert len(seen) == 9 * FOLDS, "the folds are the same for all"
    assert len({models[0].params["seed"] for models in seen.values()}) == 9 * FOLDS
    for models in seen.values():
        first, last = models[0], models[-1]
        assert [model.epochs for model in models] == [1, 3, 9][: len(models)]
        assert last.params["seed"] == first.params["seed"]
        assert last.history["loss"][:1] == first.history["loss"]
