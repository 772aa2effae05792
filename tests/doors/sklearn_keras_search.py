"""A search over Keras models as a script has it, with Keras on JAX as the workers have. Prints a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy
import sklearn_builds as builds
from sklearn.model_selection import GridSearchCV

from tenfold.errors import BadCall
from tenfold.sklearn import GridSearch, KerasClassifier, KerasRegressor

X = numpy.random.default_rng(0).normal(size=(128, 4)).astype("float32")
NAMES = numpy.array(["low", "middle", "high"])[numpy.digitize(X[:, 0] + X[:, 1], (-0.6, 0.6))]
SIDES = numpy.where(X[:, 0] > 0, "right", "left")
AMOUNTS = X[:, 0] - 2 * X[:, 1]
GRID = {"lr": [0.01, 0.05, 0.2]}
FOLDS = 2  # of 64 rows: whole batches, so that there is less to compile
ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "numbers of classes": (KerasClassifier(builds.keras_classes, epochs=3, random_state=0), NAMES),
    "one-hot": (KerasClassifier(builds.keras_one_hot, epochs=3, random_state=0), NAMES),
    "a column": (KerasClassifier(builds.keras_two, epochs=3, random_state=0), SIDES),
    "numbers to predict": (KerasRegressor(builds.keras_numbers, epochs=3, random_state=0), AMOUNTS),
}
_told: list[str] = []


def scored(estimator: Any, x: Any, y: Any) -> float:
    """Its own score; and how it was trained is noted."""
    _told.append(estimator._trained.result.how)
    return float(estimator.score(x, y))


def results(search: Any, x: Any) -> dict[str, Any]:
    names = [name for name in search.cv_results_ if name.startswith("split")]
    chances = search.predict_proba(x) if hasattr(search, "predict_proba") else search.predict(x)
    return {"scores": [search.cv_results_[name].tolist() for name in names], "predictions": chances.tolist()}


def main() -> None:
    ours, found = {}, {}
    for name, (estimator, y) in ESTIMATORS.items():
        ours[name] = GridSearch(estimator, GRID, cv=FOLDS, scoring=scored, progress=False).fit(X, y)
        found[name] = {"how": list(_told)}
        _told.clear()
    imported = "keras" in sys.modules
    for name, (estimator, y) in ESTIMATORS.items():
        theirs = GridSearchCV(estimator, GRID, cv=FOLDS).fit(X, y)
        found[name] |= {"ours": results(ours[name], X), "theirs": results(theirs, X)}
    print(json.dumps({"keras was imported": imported, "found": found}))


if __name__ == "__main__":
    try:
        main()
    except BadCall as error:
        sys.exit(str(error))
