"""ROC AUC and average precision: exact for any blocks, with ties, in memory and in files; rounded within a bound."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn
from sklearn.preprocessing import label_binarize
from splitting import SPLITS, Split, near, scored

from tenfold.errors import BadCall
from tenfold.metrics import Scoring, metric, runs
from tenfold.metrics.histograms import rounded

CURVES = {"roc_auc": sklearn.roc_auc_score, "average_precision": sklearn.average_precision_score}


@st.composite
def binary(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Truth with both classes, scores of any size with ties, and weights."""
    rng = numpy.random.default_rng(draw(st.integers(0, 10_000)))
    rows = draw(st.integers(2, 60))
    truth = rng.permutation(numpy.concatenate([[0, 1], rng.integers(0, 2, rows - 2)]))
    levels = draw(st.sampled_from([1, 3, 10, 10_000]))
    scores = rng.integers(-levels, levels + 1, rows) / levels * draw(st.sampled_from([1.0, 50.0]))
    weight = rng.choice([0.3, 1.0, 2.5], rows) if draw(st.booleans()) else None
    return truth, scores, weight


@given(binary(), SPLITS)
def test_two_classes_are_as_scikit_learn(problem: tuple[Any, Any, Any], split: Split) -> None:
    truth, scores, weight = problem
    for name, function in CURVES.items():
        expected = function(truth, scores, sample_weight=weight)
        for predicted in (scores, scores[:, None], numpy.stack([-scores, scores], axis=1)):
            near(scored(metric(name), split, truth, predicted, weight), expected)
        named = numpy.array(["no", "yes"])[truth]
        near(scored(metric(name), split, named, scores, weight), expected)


@given(st.integers(0, 10_000), SPLITS, st.sampled_from([(0, 1, 2), (4, 5, 6), ("x", "y", "z")]), st.booleans())
def test_more_classes_are_one_against_the_rest(
    seed: int, split: Split, labels: tuple[Any, ...], weighted: bool
) -> None:
    rng = numpy.random.default_rng(seed)
    codes = rng.permutation(numpy.concatenate([[0, 1, 2], rng.integers(0, 3, 30)]))
    predicted = rng.integers(1, 6, (33, 3)).astype(float)
    predicted /= predicted.sum(axis=1, keepdims=True)
    weight = rng.choice([0.5, 1.0, 2.0], 33) if weighted else None
    truth = numpy.array(labels)[codes]
    expected = sklearn.roc_auc_score(truth, predicted, multi_class="ovr", sample_weight=weight)
    near(scored(metric("roc_auc"), split, truth, predicted, weight), expected)
    wide = label_binarize(truth, classes=labels)
    expected = sklearn.average_precision_score(wide, predicted, sample_weight=weight)
    near(scored(metric("average_precision"), split, truth, predicted, weight), expected)


@given(binary(), SPLITS, st.integers(1, 20), st.integers(1, 9))
def test_scores_in_files_give_the_same(problem: tuple[Any, Any, Any], split: Split, limit: int, window: int) -> None:
    truth, scores, weight = problem
    scoring = Scoring(list(CURVES), limit=limit)
    whole, runs.WINDOW = runs.WINDOW, window
    try:
        with tempfile.TemporaryDirectory() as folder:
            tallies = [
                scoring.update(truth[rows], scores[rows], None if weight is None else weight[rows])
                for rows in split.blocks(len(truth))
            ]
            tally = split.merged(scoring, [scoring.init(), *tallies], folder=folder)
            held = tally.states[0]
            assert sum(pile.held for pile in held.piles) <= limit
            assert len({*zip(scores, truth, strict=True)}) <= limit or any(Path(folder).iterdir())
            found = scoring.scores(tally)
            assert not list(Path(folder).iterdir())
    finally:
        runs.WINDOW = whole
    for name, function in CURVES.items():
        near(found[name], function(truth, scores, sample_weight=weight))


def test_many_scores_in_many_files(tmp_path: Path) -> None:
    rng = numpy.random.default_rng(0)
    truth = rng.integers(0, 3, 60_000)
    predicted = rng.dirichlet(numpy.ones(3), 60_000) + 0.2 * numpy.eye(3)[truth]
    predicted /= predicted.sum(axis=1, keepdims=True)
    groups = rng.choice(["a", "b"], 60_000, p=[0.99, 0.01])
    scoring = Scoring(["roc_auc"], by=True, limit=20_000)
    tally = scoring.init()
    for start in range(0, 60_000, 1000):
        rows = slice(start, start + 1000)
        tally = scoring.merge(tally, scoring.update(truth[rows], predicted[rows], None, groups[rows], start), tmp_path)
    assert len(list(tmp_path.iterdir())) >= 9
    found = scoring.scores(tally)
    assert not list(tmp_path.iterdir())
    near(found["roc_auc"], sklearn.roc_auc_score(truth, predicted, multi_class="ovr"))
    rare = groups == "b"
    near(found.groups["b"]["roc_auc"], sklearn.roc_auc_score(truth[rare], predicted[rare], multi_class="ovr"))


def test_files_of_an_evaluation_that_ended_early_are_removed(tmp_path: Path) -> None:
    scoring = Scoring("roc_auc", limit=1)
    tally = scoring.merge(*(scoring.update(numpy.array([0, 1]), numpy.random.rand(2)) for _ in range(2)), tmp_path)
    assert list(tmp_path.iterdir())
    scoring.discard(tally)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("truth", [[0, 0, 0], [1, 1, 1]])
def test_one_class_alone_is_as_scikit_learn_says(truth: list[int]) -> None:
    scores = numpy.array([0.1, 0.5, 0.9])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [function(truth, scores) for function in CURVES.values()]
    found = [scored(metric(name), Split([0.5], 0), numpy.array(truth), scores) for name in CURVES]
    numpy.testing.assert_equal(found, expected)


def test_a_score_for_each_class_is_needed() -> None:
    auc = metric("roc_auc")
    with pytest.raises(BadCall, match="one score a row, and there are 3 labels: 0, 1, 2"):
        auc.result(auc.update(None, numpy.array([0, 1, 2]), numpy.array([0.1, 0.2, 0.3])))
    with pytest.raises(BadCall, match="expected scores"):
        auc.update(None, numpy.array([0, 1]), numpy.array(["a", "b"]))


@given(binary(), SPLITS)
def test_rounded_scores_keep_within_their_bound(problem: tuple[Any, Any, Any], split: Split) -> None:
    truth, scores, weight = problem
    scores = scores / 7 + numpy.random.default_rng(0).normal(size=len(scores)) * 1e-4  # many become equal
    scoring = Scoring(list(CURVES), approximate=True)
    tallies = [
        scoring.update(truth[rows], scores[rows], None if weight is None else weight[rows])
        for rows in split.blocks(len(truth))
    ]
    found = scoring.scores(split.merged(scoring, tallies))
    for name, function in CURVES.items():
        assert abs(found[name] - function(truth, scores, sample_weight=weight)) <= found.bounds[name] + 1e-12


def test_a_rounded_state_is_small_and_its_bound_too() -> None:
    rng = numpy.random.default_rng(0)
    truth = rng.integers(0, 2, 300_000)
    scores = rng.random(300_000) ** 0.5 * 0.5 + 0.4 * truth * rng.random(300_000)
    scoring = Scoring(list(CURVES), approximate=True)
    tally = scoring.update(truth, scores)
    assert sum(pile.held for pile in tally.states[0].piles) < 60_000
    found = scoring.scores(tally)
    assert found.bounds["roc_auc"] < 1e-3
    for name, function in CURVES.items():
        assert abs(found[name] - function(truth, scores)) <= found.bounds[name] < 1e-2
    assert "off by at most" in str(found)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=2, max_size=30))
def test_rounding_keeps_the_order(numbers: list[float]) -> None:
    ordered = numpy.sort(numpy.array(numbers))
    near_ = rounded(ordered)
    assert (numpy.diff(near_) >= 0).all()
    numpy.testing.assert_allclose(near_, ordered, rtol=2.0**-12)
