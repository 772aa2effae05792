"""Errors of numbers, as scikit-learn has them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn import metrics as sklearn
from splitting import SPLITS, Split, near, scored

from tenfold.errors import BadCall
from tenfold.metrics import metric

EXPECTED = {
    "mse": sklearn.mean_squared_error,
    "rmse": sklearn.root_mean_squared_error,
    "mae": sklearn.mean_absolute_error,
    "mape": sklearn.mean_absolute_percentage_error,
    "r2": sklearn.r2_score,
    "explained_variance": sklearn.explained_variance_score,
}
NUMBERS = st.integers(-4000, 4000).map(lambda number: number / 8)


@given(st.data(), SPLITS, st.sampled_from(list(EXPECTED)))
def test_as_scikit_learn(data: st.DataObject, split: Split, name: str) -> None:
    shape: Any = data.draw(st.sampled_from([(), (1,), (3,)]))
    rows = data.draw(st.integers(2, 40))
    truth, predicted = (data.draw(arrays.arrays(float, (rows, *shape), elements=NUMBERS)) for _ in range(2))
    weight = data.draw(st.none() | arrays.arrays(float, rows, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    if weight is not None:
        weight[:2] = 1.0
    found = scored(metric(name), split, truth, predicted, weight)
    near(found, EXPECTED[name](truth, predicted, sample_weight=weight))


@pytest.mark.parametrize("name", ["r2", "explained_variance"])
def test_digits_are_not_lost_far_from_zero(name: str) -> None:
    rng = numpy.random.default_rng(0)
    truth = 1e6 + rng.normal(size=5000)
    predicted = truth + rng.normal(size=5000) / 10
    for cuts in ([], [0.1, 0.5, 0.51], (numpy.arange(1, 5000) / 5000).tolist()):
        near(scored(metric(name), Split(cuts, 0), truth, predicted), EXPECTED[name](truth, predicted))


def test_truth_that_is_always_the_same() -> None:
    same = numpy.full(7, 0.1)
    split = Split([0.3, 0.6], 0)
    assert scored(metric("r2"), split, same, same) == 1.0
    assert scored(metric("r2"), split, same, same + 1) == 0.0
    assert scored(metric("explained_variance"), split, same, numpy.arange(7.0)) == 0.0


def test_what_cannot_be_compared_is_said() -> None:
    mse = metric("mse")
    with pytest.raises(BadCall, match=r"truth has the shape \(2, 1\) and predicted \(2, 3\)"):
        mse.update(None, numpy.zeros(2), numpy.zeros((2, 3)))
    with pytest.raises(BadCall, match="predicted is nan in row 1"):
        mse.update(None, numpy.zeros(2), numpy.array([0, numpy.nan]))
    with pytest.raises(BadCall, match="predicted is an array of <U1"):
        mse.update(None, numpy.zeros(1), numpy.array(["a"]))
    with pytest.raises(BadCall, match="some blocks have 1 outputs and others 2"):
        mse.merge(mse.update(None, numpy.zeros(2), numpy.zeros(2)), mse.update(None, *numpy.zeros((2, 2, 2))))
    with pytest.raises(BadCall, match=r"weight has the shape \(3,\): expected one number for each of 2 rows"):
        mse.update(None, numpy.zeros(2), numpy.zeros(2), numpy.ones(3))
    with pytest.raises(BadCall, match="negative"):
        mse.update(None, numpy.zeros(2), numpy.zeros(2), numpy.array([-1, 1]))
