"""Counts give what scikit-learn gives, for any labels, weights and blocks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn
from splitting import SPLITS, Split, near, scored

from tenfold.errors import BadCall
from tenfold.metrics import metric

LABELS = st.sampled_from(
    [(0, 1, 2), (3, 7, 20, -1), ("cat", "dog", "a longer name"), (1, 2), ("no", "yes"), (True, False)]
)
EXPECTED = {
    "accuracy": sklearn.accuracy_score,
    "balanced_accuracy": sklearn.balanced_accuracy_score,
    "confusion": sklearn.confusion_matrix,
}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Truth, predictions and weights, some of which are 0."""
    labels = draw(LABELS)
    rows = draw(st.integers(1, 40))
    some = st.lists(st.integers(0, len(labels) - 1), min_size=rows, max_size=rows)
    truth, predicted = (numpy.array(labels)[draw(some)] for _ in range(2))
    weight = draw(st.none() | st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.7]), min_size=rows, max_size=rows))
    if weight is not None:
        weight = numpy.array(weight)
        weight[0] = 1.0
    return truth, predicted, weight


@given(problems(), SPLITS, st.sampled_from(list(EXPECTED)))
def test_as_scikit_learn(problem: tuple[Any, Any, Any], split: Split, name: str) -> None:
    truth, predicted, weight = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = EXPECTED[name](truth, predicted, sample_weight=weight)
    near(scored(metric(name), split, truth, predicted, weight), expected)


@given(
    problems(), SPLITS, st.sampled_from(["precision", "recall", "f1"]), st.sampled_from(["micro", "macro", "weighted"])
)
def test_averages_are_as_scikit_learn(problem: tuple[Any, Any, Any], split: Split, share: str, average: str) -> None:
    truth, predicted, weight = problem
    function = getattr(sklearn, f"{share}_score")
    expected = function(truth, predicted, average=average, sample_weight=weight, zero_division=0)
    near(scored(metric(f"{share}_{average}"), split, truth, predicted, weight), expected)
    each = function(truth, predicted, average=None, sample_weight=weight, zero_division=0)
    found = scored(metric(f"{share}_per_class"), split, truth, predicted, weight)
    assert list(found) == sorted({*truth.tolist(), *predicted.tolist()})
    near(list(found.values()), each)


@given(st.data(), SPLITS, st.sampled_from([(0, 1), (-1, 1), (1, 2), ("no", "yes")]))
def test_the_positive_class_is_1_or_the_greater(data: st.DataObject, split: Split, labels: tuple[Any, Any]) -> None:
    picks = st.lists(st.integers(0, 1), min_size=20, max_size=20)
    truth, predicted = (numpy.array(labels)[data.draw(picks)] for _ in range(2))
    if len({*truth.tolist(), *predicted.tolist()}) == 1 and labels not in ((0, 1), (-1, 1)):
        truth[0] = labels[0]
        predicted[0] = labels[1]
    for share in ("precision", "recall", "f1"):
        function = getattr(sklearn, f"{share}_score")
        expected = function(truth, predicted, pos_label=labels[1], zero_division=0)
        near(scored(metric(share), split, truth, predicted), expected)


@given(st.data(), SPLITS, st.booleans(), st.booleans())
def test_scores_stand_for_the_greatest_of_them(data: st.DataObject, split: Split, named: bool, one_hot: bool) -> None:
    rows = data.draw(st.integers(3, 30))
    rng = numpy.random.default_rng(data.draw(st.integers(0, 1000)))
    codes = numpy.concatenate([[0, 1, 2], rng.integers(0, 3, rows - 3)])
    scores = rng.integers(0, 4, (rows, 3)) / 4  # ties
    names = numpy.array(["ape", "bee", "cat"]) if named else numpy.arange(3)
    expected = sklearn.f1_score(names[codes], names[scores.argmax(axis=1)], average="macro", zero_division=0)
    truth = numpy.eye(3)[codes] if one_hot and not named else names[codes]
    near(scored(metric("f1_macro"), split, truth, scores), expected)


def test_one_column_is_positive_above_a_half() -> None:
    truth, given_ = numpy.array([0, 1, 1, 0]), numpy.array([0.5, 0.51, 0.2, 0.9])
    for predicted in (given_, given_[:, None], given_.astype("float32")):
        assert metric("confusion").result(metric("confusion").update(None, truth, predicted)).tolist() == [
            [1, 1],
            [1, 1],
        ]


def test_columns_of_labels_that_do_not_occur_are_told_by_classes() -> None:
    truth, scores = numpy.array(["b", "c"]), numpy.array([[0.1, 0.8, 0.1], [0.1, 0.8, 0.1]])
    with pytest.raises(BadCall, match=r"3 columns are predicted, and the truth holds 2 labels: 'b', 'c'.*classes="):
        metric("accuracy").result(metric("accuracy").update(None, truth, scores))
    told = metric("f1_per_class", classes=["a", "b", "c"])
    assert told.result(told.update(None, truth, scores)) == {"b": pytest.approx(2 / 3), "c": 0.0}
    strange = metric("accuracy", classes=["a", "b", "x"])
    with pytest.raises(BadCall, match="not in classes: 'c'"):
        strange.result(strange.update(None, truth, scores))


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([0, 1], [0, 1, 1], "truth has 2 rows and predicted has 3"),
        ([0, 1], [[0.1, 0.9], [numpy.nan, 0.4]], r"predicted is \[nan 0.4\] in row 1: expected finite"),
        ([0, 1], [0.2, numpy.inf], "predicted is inf in row 1"),
        ([0, 1], [0.2, 7.5], "predicted is 7.5 in row 1: .*probability.*sigmoid"),
        ([0.5, 1], [0, 1], "truth is 0.5 in row 0: expected labels"),
        ([[1, 1, 0]], [[0.1, 0.8, 0.1]], r"shape \(1, 3\), and row 0 is not one-hot"),
        (numpy.zeros((2, 2, 2)), [0, 1], r"shape \(2, 2, 2\)"),
        (
            numpy.array(["a", None], dtype=object),
            ["a", "b"],
            "truth is None in row 1: expected all numbers, or all text",
        ),
    ],
)
def test_what_cannot_be_read_is_said(truth: Any, predicted: Any, message: str) -> None:
    with pytest.raises(BadCall, match=message):
        metric("accuracy").update(None, numpy.asarray(truth), numpy.asarray(predicted))


def test_two_kinds_of_labels_and_more_than_two_classes_are_refused() -> None:
    accuracy = metric("accuracy")
    with pytest.raises(BadCall, match="labels of two kinds: 0 and 'a'"):
        accuracy.update(None, numpy.array([0]), numpy.array(["a"]))
    with pytest.raises(BadCall, match=r"labels in some blocks|columns of scores in some blocks"):
        accuracy.merge(
            accuracy.update(None, numpy.array([0]), numpy.array([1])),
            accuracy.update(None, numpy.array([0]), numpy.array([[0.1, 0.9]])),
        )
    f1 = metric("f1")
    with pytest.raises(BadCall, match=r"f1 is for two classes, and there are 3 labels: 0, 1, 2; use f1_macro"):
        f1.result(f1.update(None, numpy.array([0, 1, 2]), numpy.array([0, 1, 1])))


def test_of_minus_one_and_zero_the_greater_is_positive() -> None:
    truth, scores = numpy.array([-1, 0, -1, 0]), numpy.array([0.1, 0.8, 0.3, 0.9])
    area = metric("roc_auc")
    assert area.result(area.update(None, truth, scores)) == sklearn.roc_auc_score(truth, scores) == 1
    f1 = metric("f1")
    assert f1.result(f1.update(None, truth, numpy.array([-1, 0, 0, 0]))) == pytest.approx(0.8)


def test_nothing_scored_is_not_a_number() -> None:
    assert numpy.isnan(metric("accuracy").result(None))
    assert metric("confusion").result(None).shape == (0, 0)
    assert metric("f1_per_class").result(None) == {}
