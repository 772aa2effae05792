"""Folds: which rows are held out, and what becomes of a trial whose folds do not end together."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from tenfold.errors import BadCall
from tenfold.search.course import Search
from tenfold.search.folds import folds
from tenfold.search.legs import Legs
from tenfold.search.pruners import Asha
from tenfold.search.space import Space
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End, Trial

COUNT = 23


def check_partition(found: list[tuple[numpy.ndarray, numpy.ndarray]], count: int = COUNT) -> None:
    """Every row is held out once, and is trained on by all other folds."""
    held = numpy.concatenate([rows for _, rows in found])
    assert sorted(held) == list(range(count))
    for training, own in found:
        assert sorted([*training, *own]) == list(range(count))


@pytest.mark.parametrize("k", [2, 5, COUNT])
def test_every_row_is_held_out_once(k: int) -> None:
    found = folds(k, None, numpy.random.default_rng(0).normal(size=COUNT), COUNT, 0)
    check_partition(found)
    sizes = [len(held) for _, held in found]
    assert len(found) == k
    assert max(sizes) - min(sizes) <= 1


def test_they_are_shuffled_by_the_seed() -> None:
    one, same, other = (folds(3, None, None, COUNT, seed) for seed in (1, 1, 2))
    assert all(numpy.array_equal(a[1], b[1]) for a, b in zip(one, same, strict=True))
    assert any(not numpy.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))
    assert not numpy.array_equal(one[0][1], numpy.arange(len(one[0][1])))


@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_each_fold_has_its_share_of_every_class(shape: tuple[int, ...]) -> None:
    y = numpy.repeat([0, 1, 2], [40, 14, 6]).reshape(shape)
    found = folds(4, None, y, 60, 0)
    check_partition(found, 60)
    counts = [numpy.bincount(y.ravel()[held], minlength=3) for _, held in found]
    assert numpy.ptp(counts, axis=0).max() <= 1


def test_splitters_and_pairs() -> None:
    from sklearn.model_selection import KFold

    rows = numpy.zeros((COUNT, 2))
    found = folds(KFold(3), rows, None, COUNT, 0)
    check_partition(found)
    again = folds(found, rows, None, COUNT, 0)
    assert all(numpy.array_equal(a[1], b[1]) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize(
    ("cv", "told"),
    [
        (1, "cv=1: expected from 2 to 23, the number of rows"),
        (24, "cv=24: expected from 2 to 23"),
        (True, "cv=True: expected a number of folds, a splitter, or pairs"),
        (2.5, "cv=2.5: expected a number of folds"),
        ("three", "cv='three': expected a number of folds, a splitter, or pairs"),
        ([[1, 2, 3]], "expected a number of folds, a splitter, or pairs"),
        ([([0], [1])], "expected two folds at least, found 1"),
        ([([0], [1]), ([1], [23])], "cv=: held-out rows of fold 1: rows from 23 to 23 of 23"),
        ([([0], [1]), ([], [2])], "cv=: rows of fold 1: expected row numbers"),
    ],
)
def test_what_is_no_folds(cv: Any, told: str) -> None:
    with pytest.raises(BadCall) as found:
        folds(cv, None, None, COUNT, 0)
    assert told in str(found.value)


# -- trials of several folds ------------------------------------------------------------------------------------------


def end(why: Any, value: float, steps: int, index: int = 0) -> End:
    curve = dict.fromkeys(range(1, steps + 1), value)
    return End(index, why, (value,), curve, 1.0, steps - 1)


def search(trials: int = 1) -> Search:
    source = Suggestions(Space({"x": list(range(trials))}), "grid", 0, ["minimize"])
    pruner = Asha(factor=2, least=2).pruner(8)
    return Search(source, pruner, Legs("val_loss", folds=2, numbered=True), trials=None, sign=1)


def test_mean_and_spread_are_those_of_the_folds() -> None:
    trial = Trial(0, {})
    trial.take([end("finished", 1.0, 3, 4), end("finished", 4.0, 3, 5)], seconds=2.0)
    assert (trial.value, trial.spread, trial.steps, trial.seconds, trial.places) == (2.5, 1.5, 3, 2.0, [4, 5])
    assert trial.curve == {1: 2.5, 2: 2.5, 3: 2.5}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_fold_that_has_diverged_is_no_error(bad: float) -> None:
    trial = Trial(0, {})
    trial.take([end("finished", bad, 2), end("finished", 4.0, 2)], seconds=2.0)
    assert not math.isfinite(trial.value)
    assert trial.spread is not None
    trial.take([end("finished", bad, 2), end("finished", -bad, 2)], seconds=2.0)
    assert math.isnan(trial.value)


def test_a_fold_that_has_ended_waits_for_the_others() -> None:
    """Early stopping ends a fold before the rung: it is not run again, and what it had reached counts on."""
    course = search()
    legs = course.next()
    assert legs is not None
    assert [(leg.fold, leg.start, leg.stop) for leg in legs] == [(0, 0, 2), (1, 0, 2)]
    course.tell(0, [end("paused", 4.0, 2, 0), end("finished", 2.0, 1, 1)])
    trial = course.trials[0]
    assert (trial.value, trial.steps, trial.curve) == (3.0, 2, {1: 3.0, 2: 3.0})
    legs = course.next()
    assert legs is not None
    assert [(leg.fold, leg.start, leg.stop, leg.after) for leg in legs] == [(0, 2, 4, 0)]
    course.tell(0, [end("finished", 1.0, 3, 2)])
    assert course.next() is None
    assert (trial.state, trial.value, trial.spread, trial.steps) == ("complete", 1.5, 0.5, 3)
    assert trial.places == [2, 1]
    assert trial.seconds == 3.0


def test_a_fold_that_fails_is_the_trials_failure() -> None:
    course = search()
    course.next()
    course.tell(0, [end("paused", 1.0, 2), End(1, None, None, {}, error="it failed")])
    assert course.next() is None
    assert (course.trials[0].state, course.trials[0].error) == ("failed", "it failed")
    assert math.isnan(course.trials[0].value)
