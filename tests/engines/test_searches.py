"""Searches of `tenfold.sklearn` on every engine: the scores are those of scikit-learn's own search."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in the middle of a test
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import tenfold
from tenfold.sklearn import GridSearch, TorchClassifier

X = numpy.random.default_rng(0).normal(size=(60, 4))
Y = numpy.where(X[:, 0] > 0, "right", "left")


def build(n_features: int, n_classes: int, lr: float = 0.01) -> Any:
    import torch

    module = torch.nn.Linear(n_features, n_classes)
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        pytest.param(SVC(), {"C": [0.1, 1]}, id="of scikit-learn"),
        pytest.param(TorchClassifier(build, random_state=0), {"lr": [0.01, 0.1]}, id="of ours"),
    ],
)
def test_scores_are_the_same_on_every_engine(engine: str, estimator: Any, grid: Any) -> None:
    search = GridSearch(estimator, grid, cv=3, n_jobs=2, progress=False)
    with tenfold.use(engine):
        search.fit(X, Y)
    theirs = GridSearchCV(estimator, grid, cv=3).fit(X, Y)
    assert search.best_params_ == theirs.best_params_
    for fold in range(3):
        name = f"split{fold}_test_score"
        numpy.testing.assert_allclose(search.cv_results_[name], theirs.cv_results_[name], rtol=1e-6)
