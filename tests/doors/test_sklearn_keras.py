"""Keras estimators as people use them: asked in a process with Keras on PyTorch, the quickest for small models."""

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
    import sklearn_keras
    sklearn_keras.main()
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    variables = {"KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    text = _RUN.format(here=str(Path(__file__).parent))
    ended = scripts.run(tmp_path_factory.mktemp("keras"), text, variables, seconds=200)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.fixture
def answer(request: pytest.FixtureRequest, answers: dict[str, Any]) -> Any:
    found = answers[request.param]
    assert not (isinstance(found, dict) and "error" in found), found["error"]
    return found


def asks(name: str) -> Any:
    return pytest.mark.parametrize("answer", [name], indirect=True)


@asks("every_loss")
def test_labels_and_probabilities_for_every_loss(answer: dict[str, Any]) -> None:
    assert len(answer) == 11
    for name, (shape, agree, sums, score, classes) in answer.items():
        assert shape == [60, len(classes)], name
        assert classes == (["high", "low", "middle"] if len(classes) == 3 else ["left", "right"])
        assert agree, f"{name}: predict is not the likeliest of predict_proba"
        assert sums < 1e-5, name
        assert score > 0.85, f"{name}: {score}"


@asks("losses_of_ones_own")
def test_a_loss_of_ones_own_takes_what_the_last_layer_gives(answer: dict[str, float]) -> None:
    assert max(answer.values()) < 1e-5, answer


@asks("a_hinge")
def test_a_hinge_has_classes_and_no_probabilities(answer: dict[str, Any]) -> None:
    assert answer["score"] > 0.85
    assert "a hinge loss gives no probabilities" in answer["said"]


@asks("a_class_of_its_own")
def test_a_model_may_be_a_class_of_its_own(answer: dict[str, Any]) -> None:
    assert answer["score"] > 0.7
    assert answer["shape"] == [60]


@asks("refusals")
def test_what_build_must_return_is_said(answer: list[str]) -> None:
    for said, wanted in zip(
        answer, ("that is compiled", "several outputs", "one output, and y has 3 classes", "2 outputs"), strict=True
    ):
        assert wanted in said


@asks("going_on")
def test_partial_fits_are_epochs_of_a_fit_also_after_a_journey(answer: dict[str, Any]) -> None:
    whole, parts, there = answer["losses"]
    numpy.testing.assert_allclose([parts, there], [whole, whole], rtol=1e-5)
    assert max(answer["apart"]) < 1e-5


@asks("travelling")
def test_a_fitted_estimator_travels_without_its_model(answer: dict[str, Any]) -> None:
    assert answer == {"keras in it": False, "apart": 0.0, "model": "Sequential", "kept": {"epochs": 2}}


@asks("stopping")
def test_early_stopping_is_ours_or_keras_own(answer: list[int]) -> None:
    assert answer[0] == answer[1] < 30


@asks("random_numbers")
def test_the_callers_random_numbers_are_left_alone(answer: bool) -> None:
    assert answer is True
