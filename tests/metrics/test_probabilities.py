"""Log loss, Brier, top-k and calibration, as scikit-learn has them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import calibration
from sklearn import metrics as sklearn
from splitting import SPLITS, Split, near, scored

from tenfold.errors import BadCall
from tenfold.metrics import metric

NAMES = st.sampled_from([(0, 1, 2, 3), (5, 6, 7, 9), ("a", "bb", "c", "d")])


@st.composite
def problems(draw: st.DrawFn, classes: int) -> tuple[Any, Any, Any, Any]:
    """Truth that has every class, probabilities with zeros and ties, weights, and the labels."""
    rng = numpy.random.default_rng(draw(st.integers(0, 10_000)))
    rows = draw(st.integers(classes, 40))
    labels = numpy.array(draw(NAMES))[:classes]
    codes = rng.permutation(numpy.concatenate([numpy.arange(classes), rng.integers(0, classes, rows - classes)]))
    given_ = rng.integers(0, 5, (rows, classes)) + (rng.random((rows, classes)) if draw(st.booleans()) else 0)
    given_[given_.sum(axis=1) == 0] = 1
    weight = rng.choice([0.0, 0.5, 1.0, 2.5], rows) + numpy.eye(1, rows)[0] if draw(st.booleans()) else None
    return labels[codes], given_ / given_.sum(axis=1, keepdims=True), weight, labels


@given(st.integers(2, 4).flatmap(problems), SPLITS)
def test_losses_are_as_scikit_learn(problem: tuple[Any, Any, Any, Any], split: Split) -> None:
    truth, predicted, weight, _ = problem
    for name, function in (("log_loss", sklearn.log_loss), ("brier", sklearn.brier_score_loss)):
        near(scored(metric(name), split, truth, predicted, weight), function(truth, predicted, sample_weight=weight))


@given(problems(2), SPLITS)
def test_one_column_is_the_positive_class(problem: tuple[Any, Any, Any, Any], split: Split) -> None:
    truth, predicted, weight, labels = problem
    for column in (predicted[:, 1], predicted[:, 1:]):
        near(
            scored(metric("log_loss"), split, truth, column, weight),
            sklearn.log_loss(truth, column, sample_weight=weight),
        )
        expected = sklearn.brier_score_loss(truth, column, sample_weight=weight, pos_label=labels[1])
        near(scored(metric("brier"), split, truth, column, weight), expected)


@given(st.integers(3, 4).flatmap(problems), SPLITS, st.integers(1, 2))
def test_top_k_is_as_scikit_learn(problem: tuple[Any, Any, Any, Any], split: Split, k: int) -> None:
    truth, predicted, weight, _ = problem
    expected = sklearn.top_k_accuracy_score(truth, predicted, k=k, sample_weight=weight)
    near(scored(metric(f"top_{k}"), split, truth, predicted, weight), expected)


def test_top_k_of_two_classes() -> None:
    truth, predicted = numpy.array([0, 1, 1]), numpy.array([0.5, 0.4, 0.9])
    near(
        scored(metric("top_1"), Split([0.5], 0), truth, predicted), sklearn.top_k_accuracy_score(truth, predicted, k=1)
    )
    assert scored(metric("top_2"), Split([0.5], 0), truth, predicted) == 1.0


@given(problems(2), SPLITS, st.sampled_from([5, 10]))
def test_the_calibration_curve_is_as_scikit_learn(problem: tuple[Any, Any, Any, Any], split: Split, bins: int) -> None:
    truth, predicted, _, labels = problem
    expected = calibration.calibration_curve(truth, predicted[:, 1], n_bins=bins, pos_label=labels[1])
    found = scored(metric("calibration" if bins == 5 else "calibration_10"), split, truth, predicted)
    near(found["true"], expected[0])
    near(found["predicted"], expected[1])
    weighted = scored(metric(f"calibration_{bins}"), split, truth, predicted, numpy.full(len(truth), 2.0))
    near(weighted["true"], expected[0])
    near(weighted["weight"].sum(), 2 * len(truth))


def test_float32_is_clipped_as_scikit_learn_clips_it() -> None:
    truth, predicted = numpy.array([0, 1]), numpy.array([[0.0, 1.0], [0.25, 0.75]], dtype=numpy.float32)
    found = scored(metric("log_loss"), Split([0.5], 0), truth, predicted)
    assert found == pytest.approx(sklearn.log_loss(truth, predicted), rel=1e-6)


def test_what_is_not_a_probability_is_said() -> None:
    with pytest.raises(BadCall, match=r"predicted is \[-1.  2.\] in row 1"):
        metric("log_loss").update(None, numpy.array([0, 1]), numpy.array([[0.5, 0.5], [-1, 2]]))
    with pytest.raises(BadCall, match="expected scores or probabilities"):
        metric("brier").update(None, numpy.array([0, 1]), numpy.array(["a", "b"]))
    with pytest.raises(BadCall, match="calibration is for two classes, and 3 columns"):
        metric("calibration").update(None, numpy.array([0]), numpy.array([[0.2, 0.2, 0.6]]))
