"""All metrics at once: groups, bootstrap, what is shared, and what the scores look like."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn
from splitting import SPLITS, Split, near

from tenfold.errors import BadCall
from tenfold.metrics import Scores, Scoring, names
from tenfold.metrics.resampling import drawn, keys


def evaluated(
    scoring: Scoring, split: Split, truth: Any, predicted: Any, weight: Any = None, groups: Any = None
) -> Scores:
    """As `evaluate` does it: each block in a worker, then all merged."""
    worker = pickle.loads(pickle.dumps(scoring))
    tallies = [
        worker.update(
            truth[rows],
            predicted[rows],
            None if weight is None else weight[rows],
            None if groups is None else groups[rows],
            rows.start,
        )
        for rows in split.blocks(len(truth))
    ]
    return scoring.scores(split.merged(scoring, tallies))


def case(seed: int, rows: int = 80) -> tuple[Any, Any, Any, Any]:
    rng = numpy.random.default_rng(seed)
    truth = numpy.concatenate([[0, 1], rng.integers(0, 2, rows - 2)])
    predicted = numpy.clip(rng.normal(0.3 + 0.4 * truth, 0.3), 0, 1).round(2)
    groups = numpy.array(["north", "south", "east", "nowhere"])[rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])]
    return truth, predicted, rng.choice([0.5, 1.0, 2.0], rows), groups


EVERY = ["accuracy", "f1", "f1_macro", "log_loss", "brier", "mse", "r2", "roc_auc", "average_precision"]


@settings(max_examples=40)
@given(st.integers(0, 1000), SPLITS, st.booleans())
def test_every_group_has_the_scores_of_its_rows(seed: int, split: Split, weighted: bool) -> None:
    truth, predicted, weight, groups = case(seed)
    weight = weight if weighted else None
    found = evaluated(Scoring(EVERY, by=True), split, truth, predicted, weight, groups)
    assert list(found.groups) == sorted({*groups.tolist()})
    assert found.rows == 80 == sum(scores.rows for scores in found.groups.values())
    for group, scores in [(None, found), *found.groups.items()]:
        rows = numpy.ones(80, bool) if group is None else groups == group
        some = None if weight is None else weight[rows]
        near(scores["accuracy"], sklearn.accuracy_score(truth[rows], predicted[rows] > 0.5, sample_weight=some))
        expected = sklearn.f1_score(
            truth[rows], predicted[rows] > 0.5, average="macro", sample_weight=some, zero_division=0
        )
        near(scores["f1_macro"], expected)  # of the labels that the group has
        near(scores["mse"], sklearn.mean_squared_error(truth[rows], predicted[rows], sample_weight=some))
        near(scores["log_loss"], sklearn.log_loss(truth[rows], predicted[rows], sample_weight=some, labels=[0, 1]))
        if len({*truth[rows].tolist()}) == 2:
            near(scores["roc_auc"], sklearn.roc_auc_score(truth[rows], predicted[rows], sample_weight=some))


def test_a_group_without_all_labels_reads_columns_as_the_whole_does() -> None:
    truth = numpy.array([1, 2, 3, 1, 2])
    predicted = numpy.eye(3)[truth - 1] * 0.7 + 0.1
    groups = numpy.array([0, 0, 0, 1, 1])  # 1 and 2 alone would be columns 1 and 2
    found = evaluated(
        Scoring(["accuracy", "log_loss", "top_1"], by=True), Split([0.3, 0.7], 1), truth, predicted, None, groups
    )
    assert found.groups[1]["accuracy"] == found.groups[1]["top_1"] == 1.0
    near(found.groups[1]["log_loss"], -numpy.log(0.8))


def test_groups_may_be_numbers_and_nothing() -> None:
    groups = numpy.array([1.5, numpy.nan, 2.0, numpy.nan])
    found = evaluated(
        Scoring("accuracy", by=True),
        Split([0.5], 0),
        numpy.array([0, 1, 1, 1]),
        numpy.array([0, 1, 0, 0]),
        None,
        groups,
    )
    assert {group: scores["accuracy"] for group, scores in found.groups.items()} == {None: 0.5, 1.5: 1.0, 2.0: 0.0}
    with pytest.raises(BadCall, match="groups has 1 values: expected one for each of 2 rows"):
        Scoring("accuracy", by=True).update([0, 1], [0, 1], None, ["a"])


@settings(max_examples=15)
@given(st.integers(0, 1000), SPLITS, SPLITS)
def test_the_bootstrap_does_not_depend_on_blocks(seed: int, one: Split, other: Split) -> None:
    truth, predicted, weight, groups = case(seed, rows=30)
    scoring = Scoring([*EVERY, "f1_per_class"], by=True, bootstrap=10, seed=seed)
    a, b = (evaluated(scoring, split, truth, predicted, weight, groups) for split in (one, other))
    assert a.intervals.keys() == {*EVERY, "f1_per_class"}
    for first, second in [(a, b), *((a.groups[group], b.groups[group]) for group in a.groups)]:
        for name in EVERY:
            near(first.interval(name), second.interval(name))


def test_a_replicate_is_the_score_of_the_rows_that_were_drawn() -> None:
    truth, predicted, _, _ = case(0)
    found = evaluated(
        Scoring(["accuracy", "f1_macro", "roc_auc"], bootstrap=50, seed=3), Split([0.2, 0.5], 0), truth, predicted
    )
    replicates: dict[str, list[float]] = {"accuracy": [], "f1_macro": [], "roc_auc": []}
    for key in keys(3, 50):
        rows = numpy.repeat(numpy.arange(80), drawn(numpy.arange(80), key).astype(int))
        hard = predicted[rows] > 0.5
        replicates["accuracy"].append(sklearn.accuracy_score(truth[rows], hard))
        replicates["f1_macro"].append(sklearn.f1_score(truth[rows], hard, average="macro"))
        replicates["roc_auc"].append(sklearn.roc_auc_score(truth[rows], predicted[rows]))
    for name, values in replicates.items():
        near(found.interval(name), numpy.quantile(values, [0.025, 0.975]))


def test_the_interval_is_about_that_of_drawing_with_replacement() -> None:
    rng = numpy.random.default_rng(0)
    truth = rng.normal(size=2000)
    predicted = truth + rng.normal(size=2000)
    low, high = evaluated(Scoring("mse", bootstrap=400), Split([0.3], 0), truth, predicted).interval("mse")
    errors = (truth - predicted) ** 2
    plain = numpy.quantile([errors[rng.integers(0, 2000, 2000)].mean() for _ in range(400)], [0.025, 0.975])
    width = plain[1] - plain[0]
    assert abs(low - plain[0]) < 0.25 * width
    assert abs(high - plain[1]) < 0.25 * width


def test_draws_are_poisson_and_independent() -> None:
    times = drawn(numpy.arange(200_000)[:, None], keys(7, 3)[None, :])
    shares = numpy.bincount(times[:, 0].astype(int), minlength=5)[:5] / 200_000
    numpy.testing.assert_allclose(shares, numpy.exp(-1) / numpy.array([1, 1, 2, 6, 24]), atol=0.005)
    for a, b in ((times[:, 0], times[:, 1]), (times[:, 1], times[:, 2]), (times[:-1, 0], times[1:, 0])):
        assert abs(numpy.corrcoef(a, b)[0, 1]) < 0.01
    assert (keys(7, 3) == keys(7, 10)[:3]).all()
    assert (keys(7, 3) != keys(8, 3)).all()


def test_metrics_with_the_same_state_share_it() -> None:
    scoring = Scoring(
        ["accuracy", "f1", "confusion", "roc_auc", "average_precision", "mse", "rmse", "r2", "explained_variance"]
    )
    assert len(scoring.init().states) == 4


def test_faults_of_a_block_are_known_at_once_with_the_number_of_the_row() -> None:
    scoring = Scoring(["accuracy", "roc_auc"])
    with pytest.raises(BadCall, match="predicted is nan in row 1001"):
        scoring.update([0, 1], [0.5, numpy.nan], first_row=1000)
    with pytest.raises(BadCall, match=r"f1 is for two classes.*precision is for two classes"):
        Scoring(["f1", "precision"]).update([0, 1, 2], [0, 1, 2])


def test_every_fault_of_a_call_is_in_one_message() -> None:
    with pytest.raises(BadCall) as caught:
        Scoring(["acuracy", "mean_squared_error", "mse", "mse", 3], bootstrap=-1)
    for words in (
        "did you mean 'accuracy'",
        "did you mean 'mse'",
        "two metrics are called mse",
        "metric 3",
        "bootstrap=-1",
    ):
        assert words in str(caught.value)
    assert all(name in str(caught.value) for name in names())
    with pytest.raises(BadCall, match="expected at least one"):
        Scoring([])


def test_scores_are_shown_and_kept() -> None:
    truth, predicted, _, groups = case(1)
    asked = {"right": "accuracy", "confusion": "confusion", "each": "f1_per_class", "curve": "calibration"}
    found = evaluated(Scoring(asked, by=True, bootstrap=20), Split([0.5], 0), truth, predicted, None, groups)
    assert list(found) == list(asked)
    assert len(found) == 4
    assert found.labels == (0, 1)
    assert found["confusion"].dtype == numpy.int64
    assert pickle.loads(pickle.dumps(found))["right"] == found["right"]
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert told["scores"]["right"] == found["right"]
    assert told["groups"]["north"]["rows"] == found.groups["north"].rows
    for words in ("Scores of 80 rows", "right", "each of 0", "confusion, true in rows", "'north'"):
        assert words in str(found)
    frame = found.frame()
    assert list(frame.columns) == ["group", "metric", "class", "value", "low", "high", "rows"]
    assert (
        frame[(frame["metric"] == "right") & (frame["group"] == "south")]["value"].item()
        == found.groups["south"]["right"]
    )
    low, high = found.interval("each")[1]
    assert low <= found["each"][1] <= high
    with pytest.raises(BadCall, match="it is not a number"):
        found.interval("confusion")
    with pytest.raises(KeyError, match="'f1' was not scored; there are right, confusion"):
        found["f1"]
    plain = evaluated(Scoring("accuracy"), Split([], 0), truth, predicted)
    with pytest.raises(BadCall, match="there was no bootstrap"):
        plain.interval("accuracy")


def test_nothing_to_score() -> None:
    scoring = Scoring(["accuracy", "roc_auc", "r2", "confusion"], bootstrap=3, by=True)
    found = scoring.scores(scoring.merge(scoring.init(), scoring.update([], [], None, [])))
    assert found.rows == 0
    assert numpy.isnan(found["accuracy"])
    assert numpy.isnan(found["roc_auc"])
    assert found.as_dict()["scores"]["r2"] is None
