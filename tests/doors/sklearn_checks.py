"""Runs scikit-learn's own checks of estimators on Keras estimators, in a process with the backend that it was given.

Started by `test_sklearn_checks.py`. Models are of float64: the checks compare to 1e-7, which is finer than float32.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Collection
from typing import Any

import keras
import sklearn_builds
from sklearn.utils.estimator_checks import estimator_checks_generator

from tenfold.sklearn import KerasClassifier, KerasRegressor


def main(kinds: Collection[str], only: Collection[str] = ()) -> None:
    """Print a line of JSON: what each check said of each kind, None for nothing."""
    keras.config.set_floatx("float64")
    estimators = {
        "classifier": KerasClassifier(sklearn_builds.keras_classes, epochs=20, batch_size=64),
        "regressor": KerasRegressor(sklearn_builds.keras_numbers, epochs=10, batch_size=64),
    }
    print(json.dumps({kind: answers_of(estimators[kind], only) for kind in kinds}))


def answers_of(estimator: Any, only: Collection[str]) -> dict[str, str | None]:
    answers: dict[str, str | None] = {}
    for place, (one, check) in enumerate(estimator_checks_generator(estimator)):
        name = getattr(check, "func", check).__name__
        if only and name not in only:
            continue
        answers[f"{name} {place}"] = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", module="keras")
                # Keras on PyTorch turns variables into arrays in the way of NumPy 1.
                warnings.filterwarnings("ignore", message=".*__array__ implementation.*", category=DeprecationWarning)
                check(one)
        except Exception as error:
            skipped = type(error).__name__ == "SkipTest"
            answers[f"{name} {place}"] = f"skipped: {error}" if skipped else traceback.format_exc()
    return answers
