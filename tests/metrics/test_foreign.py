"""Metrics of others: people's own, Keras's on the whole as in parts, and those with merge_state."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import keras
import numpy
import pytest
import torch
from sklearn import metrics as sklearn
from splitting import Split

from tenfold.errors import BadCall
from tenfold.metrics import Metric, Scoring, metric

RNG = numpy.random.default_rng(0)
BINARY = RNG.integers(0, 2, 90), numpy.clip(RNG.random(90), 0.01, 0.99).astype("float32")
CODES = RNG.integers(0, 3, 90)
MANY = numpy.eye(3, dtype="float32")[CODES], RNG.dirichlet(numpy.ones(3), 90).astype("float32")
SPARSE = CODES, MANY[1]
NUMBERS = RNG.normal(size=(90, 2)).astype("float32"), RNG.normal(size=(90, 2)).astype("float32")
WEIGHT = RNG.choice([1.0, 2.0, 3.0], 90).astype("float32")
SPLIT = Split([0.05, 0.3, 0.31, 0.8], 3)


def evaluated(what: Any, truth: Any, predicted: Any, weight: Any = None) -> Any:
    scoring = Scoring({"it": what})
    worker = pickle.loads(cloudpickle.dumps(scoring))
    tallies = [
        worker.update(truth[rows], predicted[rows], None if weight is None else weight[rows])
        for rows in SPLIT.blocks(len(truth))
    ]
    return scoring.scores(SPLIT.merged(scoring, tallies))["it"]


KERAS = [
    (keras.metrics.BinaryAccuracy, {}, BINARY),
    (keras.metrics.Precision, {}, BINARY),
    (keras.metrics.Recall, {"thresholds": [0.3, 0.6]}, BINARY),
    (keras.metrics.AUC, {}, BINARY),
    (keras.metrics.AUC, {"curve": "PR", "multi_label": True, "num_labels": 3}, MANY),
    (keras.metrics.SensitivityAtSpecificity, {"specificity": 0.5}, BINARY),
    (keras.metrics.FalsePositives, {}, BINARY),
    (keras.metrics.BinaryCrossentropy, {}, BINARY),
    (keras.metrics.CategoricalCrossentropy, {}, MANY),
    (keras.metrics.F1Score, {"average": "macro"}, MANY),
    (keras.metrics.OneHotMeanIoU, {"num_classes": 3}, MANY),
    (keras.metrics.SparseCategoricalAccuracy, {}, SPARSE),
    (keras.metrics.SparseTopKCategoricalAccuracy, {"k": 2}, SPARSE),
    (keras.metrics.MeanSquaredError, {}, NUMBERS),
    (keras.metrics.RootMeanSquaredError, {}, NUMBERS),
    (keras.metrics.MeanAbsoluteError, {}, NUMBERS),
    (keras.metrics.R2Score, {}, NUMBERS),
    (keras.metrics.CosineSimilarity, {}, NUMBERS),
    (keras.metrics.MeanMetricWrapper, {"fn": lambda true, given: abs(true - given)}, NUMBERS),
]


@pytest.mark.parametrize(("kind", "options", "rows"), KERAS, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("weighted", [False, True])
def test_a_keras_metric_gives_what_keras_gives_for_all_rows(kind: Any, options: Any, rows: Any, weighted: bool) -> None:
    weight = WEIGHT if weighted else None
    whole = kind(**options)
    columns = [array[:, None] if rows is BINARY else array for array in rows]  # as Keras's own loops have them
    whole.update_state(*columns, sample_weight=weight)
    numpy.testing.assert_allclose(evaluated(kind(**options), *rows, weight), numpy.asarray(whole.result()), rtol=2e-5)


def test_a_keras_metric_has_intervals() -> None:
    scoring = Scoring([keras.metrics.BinaryAccuracy(name="keras"), "accuracy"], bootstrap=20)
    found = scoring.scores(scoring.update(*BINARY))
    numpy.testing.assert_allclose(found.interval("keras"), found.interval("accuracy"), rtol=1e-5)


class Greatest(keras.metrics.Metric):
    """Its state is no sum."""

    def __init__(self, name: str = "greatest", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.most = self.add_variable((), "zeros", name="most")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.most.assign(keras.ops.maximum(self.most, keras.ops.max(keras.ops.abs(y_true - y_pred))))

    def result(self) -> Any:
        return self.most.value


class Averaged(Greatest):
    """Its state says that it is no sum."""

    def __init__(self, name: str = "averaged", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.mean = self.add_variable((), "zeros", aggregation="mean", name="mean")


def test_a_keras_metric_whose_state_is_no_sum_is_refused() -> None:
    with pytest.raises(BadCall, match="greatest: the state of all rows is not the sum of the states of two halves"):
        Scoring(Greatest()).update(*NUMBERS)
    with pytest.raises(BadCall, match="its variable mean is not a sum over rows"):
        Scoring(Averaged())
    with pytest.raises(BadCall, match="its update_state takes 1 values; expected truth and predictions"):
        Scoring(keras.metrics.Mean())
    scalar = keras.metrics.MeanMetricWrapper(lambda true, given: keras.ops.mean((true - given) ** 2), name="scalar")
    with pytest.raises(BadCall, match="scalar: the state of all rows is not the sum"):
        Scoring(scalar).update(*NUMBERS)


class Near:
    """A metric as torchmetrics has them: predictions first, and merging with one other."""

    def __init__(self) -> None:
        self.near, self.rows = 0, 0

    def update(self, preds: Any, target: Any) -> None:
        self.near += int((abs(preds - target) < 0.5).sum())
        self.rows += len(target)

    def merge_state(self, incoming_state: Near) -> None:
        self.near += incoming_state.near
        self.rows += incoming_state.rows

    def compute(self) -> float:
        return self.near / self.rows


class TensorMean(torch.nn.Module):
    """The same for tensors, and merging with several others, as torcheval does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.rows = 0

    def update(self, input: torch.Tensor, target: torch.Tensor) -> None:  # noqa: A002
        self.total += (input - target).sum(dim=0)
        self.rows += len(target)

    def merge_state(self, metrics: list[TensorMean]) -> None:
        for each in metrics:
            self.total += each.total
            self.rows += each.rows

    def compute(self) -> torch.Tensor:
        return self.total / self.rows


def test_metrics_with_merge_state() -> None:
    truth, predicted = NUMBERS[0][:, 0], NUMBERS[1][:, 0]
    assert evaluated(Near(), truth, predicted) == numpy.mean(abs(truth - predicted) < 0.5)
    for numbers in (NUMBERS, [each.byteswap().view(each.dtype.newbyteorder()) for each in NUMBERS]):
        found = evaluated(TensorMean(), *numbers)
        numpy.testing.assert_allclose(found, (NUMBERS[1] - NUMBERS[0]).mean(axis=0), rtol=1e-4)
    with pytest.raises(BadCall, match="bootstrap=10: Near knows no weights"):
        Scoring(Near(), bootstrap=10)
    with pytest.raises(BadCall, match="weight: Near knows no weights"):
        Scoring(Near()).update(truth, predicted, WEIGHT)


class Bias:
    """Somebody's own metric, with weights."""

    name = "bias"

    def init(self) -> Any:
        return 0.0, 0.0

    def update(self, state: Any, truth: Any, predicted: Any, weight: Any) -> Any:
        weight = numpy.ones(len(truth)) if weight is None else weight
        return state[0] + float(weight @ (predicted - truth)), state[1] + float(weight.sum())

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: Any) -> float:
        return state[0] / state[1] if state[1] else 0.0


class Worst(Bias):
    """Without weights."""

    name = "worst"

    def update(self, state: Any, truth: Any, predicted: Any) -> Any:  # type: ignore[override]
        return max(state[0], float(abs(predicted - truth).max())), 1

    def merge(self, a: Any, b: Any) -> Any:
        return max(a[0], b[0]), 1


class Forgetful(Bias):
    """Does not return its state."""

    def update(self, state: Any, truth: Any, predicted: Any, *, weight: Any = None) -> Any:  # type: ignore[override]
        return None


def test_ones_own_metric() -> None:
    truth, predicted = NUMBERS[0][:, 0].astype(float), NUMBERS[1][:, 0].astype(float)
    assert isinstance(Bias(), Metric)
    assert evaluated(Bias(), truth, predicted, WEIGHT) == pytest.approx(
        numpy.average(predicted - truth, weights=WEIGHT)
    )
    assert evaluated(Worst(), truth, predicted) == abs(truth - predicted).max()
    scoring = Scoring(["mae", Bias()], bootstrap=20, by=True)
    found = scoring.scores(scoring.update(truth, predicted, None, CODES))
    low, high = found.interval("bias")
    assert low < found["bias"] < high
    assert found.groups[2]["bias"] == pytest.approx((predicted - truth)[CODES == 2].mean())
    with pytest.raises(BadCall, match="bootstrap=5: worst knows no weights"):
        Scoring(Worst(), bootstrap=5)
    with pytest.raises(BadCall, match=r"bias.update\(\) returned None"):
        Scoring(Forgetful()).update(truth, predicted)


def test_a_metric_may_write_to_what_it_is_given() -> None:
    class Spoiling(Bias):
        def update(self, state: Any, truth: Any, predicted: Any, weight: Any) -> Any:
            predicted -= truth
            truth[:] = 0
            weight /= 2
            return super().update(state, truth, predicted, weight)

    truth, predicted, groups = NUMBERS[0][:, 0], NUMBERS[1][:, 0], numpy.arange(len(WEIGHT)) % 2
    wanted, found = (
        scoring.scores(scoring.update(truth.copy(), predicted.copy(), WEIGHT, groups))
        for scoring in (Scoring([metric, "mae"], by=True) for metric in (Bias(), Spoiling()))
    )
    assert found.as_dict() == wanted.as_dict()


def test_what_has_no_state_is_refused_with_what_to_use() -> None:
    with pytest.raises(BadCall, match=r"f1_score: a function has no state to merge.*use 'f1' instead"):
        metric(sklearn.f1_score)
    with pytest.raises(BadCall, match="use 'log_loss' instead"):
        metric(sklearn.make_scorer(sklearn.log_loss))
    with pytest.raises(BadCall, match=r"has no state to merge.*init, update, merge and result"):
        metric(lambda truth, predicted: 0.0)
    with pytest.raises(BadCall, match=r"Bias is a class: give an object of it, Bias\(\)"):
        metric(Bias)
