"""Which trials go on: rungs, brackets, medians, patience; and the judge in a worker that keeps to a leg's bounds."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from tenfold.search import pruners
from tenfold.search.course import Search
from tenfold.search.legs import Legs
from tenfold.search.pruners import Asha, Hyperband, Median, Patience
from tenfold.search.space import Space
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End, Trial
from tenfold.work.leg import Bounds, Judge, Leg, Why


def every(pruner: Any, *, closing: bool = False) -> list[int]:
    """All that go on now."""
    found: list[int] = []
    while (one := pruner.promoted(closing=closing)) is not None:
        found.append(one)
    return found


# -- rungs ------------------------------------------------------------------------------------------------------------


def test_rungs_are_the_least_times_powers_of_the_factor() -> None:
    def stops(settings: Asha, most: int) -> list[int | None]:
        pruner, found = settings.pruner(most), [0]
        while found[-1] is not None:
            found.append(pruner.stop(0, found[-1]))  # type: ignore[arg-type]
        return found[1:]  # type: ignore[return-value]

    assert stops(Asha(), 10) == [1, 3, None]
    assert stops(Asha(), 9) == [1, 3, None]
    assert stops(Asha(least=2, factor=2), 16) == [2, 4, 8, None]
    assert stops(Asha(), 2) == [None], "too few steps for any rung: all trials come to their end"


def test_exactly_the_best_third_goes_on() -> None:
    pruner = Asha(factor=3).pruner(9)
    for trial, value in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0]):
        pruner.reached(trial, 1, value)
    assert every(pruner) == [1, 3, 4]
    assert every(pruner) == [], "each of them once"
    for trial in (1, 3, 4):
        pruner.reached(trial, 3, float(trial))
    assert every(pruner) == [1]


def test_nobody_goes_on_before_there_are_enough_to_compare() -> None:
    pruner = Asha(factor=3).pruner(9)
    pruner.reached(0, 1, 0.0)
    pruner.reached(1, 1, 0.0)
    assert every(pruner) == []
    pruner.reached(2, 1, 0.0)
    assert every(pruner) == [0], "of equal ones the first"


def test_who_is_further_goes_first() -> None:
    pruner = Asha(factor=2).pruner(4)
    for trial in range(8):
        pruner.reached(trial, 1, float(trial))
    first = [pruner.promoted(closing=False) for _ in range(2)]
    for trial in first:
        assert trial is not None
        pruner.reached(trial, 2, float(trial))
    assert every(pruner) == [0, 2, 3]


def test_a_nan_is_the_worst() -> None:
    pruner = Asha(factor=3).pruner(9)
    for trial, value in enumerate([math.nan, math.inf, 5.0, math.nan, 7.0, 6.0]):
        pruner.reached(trial, 1, value)
    assert every(pruner) == [2, 5]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_somebody_arrives_however_few_they_are(count: int) -> None:
    study = searched(Asha(), 9, [float(n) for n in range(count)])
    assert [trial.number for trial in study if trial.state == "complete"] == [0]
    assert study[0].steps == 9


def test_somebody_arrives_even_where_the_best_one_fails_later() -> None:
    study = searched(Asha(), 9, [0.0, 1.0, 2.0, 3.0], fails={(0, 3)})
    assert [trial.state for trial in study] == ["failed", "complete", "pruned", "pruned"]


def test_trials_that_all_fail_end_the_study() -> None:
    study = searched(Asha(), 9, [0.0, 1.0, 2.0], fails={(0, 0), (1, 0), (2, 0)})
    assert [trial.state for trial in study] == ["failed"] * 3


def test_each_step_is_done_once() -> None:
    """A promoted trial goes on from where it stopped."""
    legs: list[Leg] = []
    searched(Asha(), 9, [float(n) for n in range(9)], legs=legs)
    steps = Counter((leg.trial, step) for leg in legs for step in range(leg.start, leg.stop or 9))
    assert set(steps.values()) == {1}
    assert max(leg.last or 0 for leg in legs) == 2


def test_hyperband_divides_trials_so_that_brackets_take_about_as_many_steps() -> None:
    pruner = Hyperband().pruner(9)
    firsts = Counter(pruner.stop(trial, 0) for trial in range(17))
    assert firsts == {1: 9, 3: 5, None: 3}, "the numbers of the article: 9, 5 and 3 for 9 steps and a factor of 3"
    mixed = [pruner.stop(trial, 0) for trial in range(8)]
    assert set(mixed) == {1, 3, None}, "few trials are in all brackets, too"


def test_brackets_compare_only_their_own() -> None:
    pruner = Hyperband().pruner(9)
    first = [trial for trial in range(17) if pruner.stop(trial, 0) == 1]
    for trial in range(17):
        rung = pruner.stop(trial, 0)
        if rung is not None:
            pruner.reached(trial, rung, float(trial if rung == 1 else trial + 100))
    found = every(pruner)
    assert found[:3] == first[:3]
    assert len(found) == 3 + 1, "a third of 9, and a third of 5"


def test_of_each_bracket_somebody_arrives() -> None:
    study = searched(Hyperband(), 9, [float(n) for n in range(9)])
    brackets = [Hyperband().pruner(9).stop(trial, 0) for trial in range(9)]
    for first in (1, 3):
        own = [trial for trial, begin in zip(study, brackets, strict=True) if begin == first]
        assert [trial.state for trial in own] == ["complete"] + ["pruned"] * (len(own) - 1), "the best of them"


# -- medians and patience ---------------------------------------------------------------------------------------------


def test_limits_are_the_medians_of_the_finished_at_each_step() -> None:
    pruner = Median(startup=3, warmup=1).pruner(None)
    assert pruners.bounds(pruner, 1) is None
    for curve in ({1: 1.0, 2: 5.0, 3: 9.0}, {1: 2.0, 2: 7.0}, {1: 3.0, 2: 6.0, 3: 11.0}):
        assert pruners.bounds(pruner, 1) is None, "not before so many have ended"
        pruner.ended(0, curve)
    found = pruners.bounds(pruner, -1)
    assert found == Bounds(-1, {2: 6.0, 3: 10.0})


def test_a_nan_among_the_finished_prunes_nobody_else() -> None:
    pruner = Median(startup=2).pruner(None)
    for value in (math.nan, 1.0, math.nan):
        pruner.ended(0, {1: value})
    found = pruners.bounds(pruner, 1)
    assert found is not None
    assert found.limits == {1: math.inf}
    assert Judge(Leg(0, {}, "loss", bounds=found)).look(0, {"loss": 50.0}) is None


def judged(bounds: Bounds, values: list[float], **more: Any) -> tuple[Why | None, int]:
    judge = Judge(Leg(0, {}, "loss", bounds=bounds, **more))
    for step, value in enumerate(values):
        if (why := judge.look(step, {"loss": value, "other": 0.0})) is not None:
            return why, judge.steps
    return None, judge.steps


def test_a_trial_is_pruned_where_its_best_so_far_is_above_the_limit() -> None:
    limits = {2: 5.0, 4: 3.0}
    assert judged(Bounds(1, limits), [4.0, 9.0, 9.0, 9.0]) == ("pruned", 4)
    assert judged(Bounds(1, limits), [9.0, 6.0]) == ("pruned", 2)
    assert judged(Bounds(1, limits), [2.0, 9.0, 9.0, 9.0, 9.0]) == (None, 5)
    assert judged(Bounds(1, limits), [math.nan, math.nan]) == ("pruned", 2)
    assert judged(Bounds(-1, {2: -5.0}), [4.0, 4.9]) == ("pruned", 2), "where more is better"
    assert judged(Bounds(-1, {2: -5.0}), [4.0, 5.0]) == (None, 2)


def test_patience() -> None:
    assert judged(Bounds(1, patience=2), [5.0, 4.0, 4.0, 4.0, 1.0]) == ("stopped", 4)
    assert judged(Bounds(1, patience=2, min_delta=0.5), [5.0, 4.9, 4.8, 4.7]) == ("stopped", 3)
    assert judged(Bounds(-1, patience=2), [1.0, 2.0, 3.0, 4.0]) == (None, 4)
    assert judged(Bounds(1, patience=2), [math.nan, math.nan, 1.0]) == ("stopped", 2)


# -- the judge --------------------------------------------------------------------------------------------------------


def test_a_leg_pauses_after_its_steps_whatever_their_numbers_are() -> None:
    judge = Judge(Leg(0, {}, None, start=2, stop=4, last=20))
    assert judge.look(20, {"loss": 1.0}) is None
    assert (judge.steps, judge.repeated) == (2, False), "it tells where it goes on from"
    assert judge.look(10, {"loss": 1.0}) is None
    assert (judge.steps, judge.repeated) == (2, True), "done before"
    assert judge.look(30, {"loss": 3.0}) is None
    assert judge.look(30, {"loss": 3.0}) is None, "told of twice"
    assert judge.look(40, {"loss": 4.0}) == "paused"
    assert judge.reported == [(3, {"loss": 3.0}), (4, {"loss": 4.0})]


def test_a_report_without_the_objective_is_no_step() -> None:
    judge = Judge(Leg(0, {}, "val_loss", stop=1))
    assert judge.look(0, {"loss": 1.0}) is None
    assert judge.look(0, {"val_loss": 1.0}) == "paused"


def test_what_an_earlier_attempt_has_reported_counts() -> None:
    before = [(10, {"loss": 9.0}), (20, {"loss": 5.0}), (30, {"loss": 3.0})]
    judge = Judge(Leg(0, {}, None, start=1, stop=4, last=10, bounds=Bounds(1, patience=2)))
    assert judge.recall(before) is None
    assert (judge.steps, judge.last, judge.repeated) == (3, 30, False)
    assert judge.look(20, {"loss": 5.0}) is None, "told of twice"
    assert judge.look(40, {"loss": 4.0}) == "paused"
    assert judge.reported == [(2, {"loss": 5.0}), (3, {"loss": 3.0}), (4, {"loss": 4.0})]
    assert Judge(Leg(0, {}, None, stop=2)).recall(before) == "paused", "it had come to its end before it was killed"
    assert Judge(Leg(0, {}, None, bounds=Bounds(1, {2: 4.0}))).recall(before) == "pruned"
    assert Judge(Leg(0, {}, None, start=2, numbered=True)).recall(enumerate([{"loss": 1.0}] * 2)) is None


def test_epochs_are_numbered() -> None:
    judge = Judge(Leg(0, {}, "loss", start=3, stop=5, numbered=True))
    assert judge.look(3, {"loss": 1.0}) is None
    assert judge.look(4, {"loss": 1.0}) == "paused"
    assert [steps for steps, _ in judge.reported] == [4, 5]


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (Asha(least=0, factor=1), ["Asha(least=0): expected a whole number, 1 or above", "Asha(factor=1)"]),
        (Hyperband(factor=True), ["Hyperband(factor=True): expected a whole number, 2 or above"]),
        (Median(startup=0, warmup=-1), ["Median(startup=0)", "Median(warmup=-1)"]),
        (Patience(steps=0, min_delta=-1.0), ["Patience(steps=0)", "Patience(min_delta=-1.0)"]),
        (Patience(min_delta="x"), ["Patience(min_delta='x')"]),  # type: ignore[arg-type]
        ("ascha", ["pruner='ascha': expected one of 'asha', 'hyperband', 'median', 'patience'"]),
        (7, ["pruner=7: expected one of"]),
    ],
)
def test_settings_that_cannot_work(settings: Any, told: list[str]) -> None:
    found = "; ".join(pruners.check(settings))
    assert all(fault in found for fault in told), found


def test_a_name_is_the_settings_that_it_stands_for() -> None:
    assert [pruners.chosen(name) for name in pruners.NAMES] == [Asha(), Hyperband(), Median(), Patience()]
    assert pruners.check(None) == []


# -- a study in a few lines -------------------------------------------------------------------------------------------


def searched(
    settings: Any,
    most: int,
    values: list[float],
    *,
    fails: set[tuple[int, int]] = frozenset(),  # type: ignore[assignment]
    legs: list[Leg] | None = None,
) -> list[Trial]:
    """The trials of a study whose trial n has the loss values[n] all along; (trial, start) of legs that fail."""
    source = Suggestions(Space({"x": list(range(len(values)))}), "grid", 0, ["minimize"])
    course = Search(source, settings.pruner(most), Legs("loss", folds=None, numbered=True), trials=None, sign=1)
    index = 0
    while (found := course.next()) is not None:
        (leg,) = found
        (legs if legs is not None else []).append(leg)
        stop = leg.stop or most
        curve = dict.fromkeys(range(leg.start + 1, stop + 1), values[leg.trial])
        why: Why = "finished" if stop == most else "paused"
        end = End(index, why, (values[leg.trial],), curve, 1.0, stop - 1)
        failed = End(index, None, None, {}, 1.0, error="it failed")
        assert (leg.after is None) == (leg.start == 0)
        course.tell(leg.trial, [failed if (leg.trial, leg.start) in fails else end])
        index += 1
    course.close()
    return course.trials
