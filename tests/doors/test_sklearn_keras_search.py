"""A search over Keras estimators gives the numbers of GridSearchCV, and builds no model in the caller's process.

Fused models are trained by Keras on JAX, and so is what they are compared with: other backends draw other initial
weights from the same seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts

_RUN = """
    import sys
    sys.path.insert(0, {here!r})
    sys.modules["tensorflow"] = None  # scikit-learn's search would have Keras import it, for seconds
    import sklearn_keras_search
    sklearn_keras_search.main()
"""
NAMES = ("numbers of classes", "one-hot", "a column", "numbers to predict")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    variables = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", **scripts.HASTY}
    folder = tmp_path_factory.mktemp("search")
    # GridSearchCV trains one model after the other, which differ by numbers only: they are compiled once.
    variables |= {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    ended = scripts.run(folder, _RUN.format(here=str(Path(__file__).parent)), variables, seconds=250)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scores_and_predictions_are_those_of_grid_search_cv(name: str, told: dict[str, Any]) -> None:
    found = told["found"][name]
    numpy.testing.assert_allclose(found["ours"]["scores"], found["theirs"]["scores"], rtol=1e-3)
    numpy.testing.assert_allclose(found["ours"]["predictions"], found["theirs"]["predictions"], rtol=1e-3, atol=1e-4)
    assert numpy.std(found["ours"]["scores"]) > 0, "or this test shows nothing"


@pytest.mark.slow
def test_models_are_fused(told: dict[str, Any]) -> None:
    for name in NAMES:
        how = told["found"][name]["how"]
        assert len(how) == 6
        assert all(one.startswith("fused: ") for one in how), how


@pytest.mark.slow
def test_the_caller_does_not_even_import_keras(told: dict[str, Any]) -> None:
    assert told["keras was imported"] is False
