"""Population-based training: who takes over from whom, with which parameters, and what the others do meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tenfold.search.legs import Legs
from tenfold.search.population import FACTORS, Pbt, Population
from tenfold.search.space import Space, choice, integer, loguniform, uniform
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import End
from tenfold.work.leg import Leg

SPACE = Space(
    {
        "lr": loguniform(1e-4, 1e-1),
        "n": integer(1, 9),
        "kind": ["a", "b", "c"],
        "optimizer": choice(adam={}, sgd={"momentum": uniform(0, 1)}),
        "fixed": 5,
    }
)


class Played:
    """A population whose trial n has the loss `value(leg)`."""

    def __init__(
        self,
        value: Callable[[Leg], float],
        *,
        trials: int = 8,
        steps: int = 4,
        settings: Pbt = Pbt(every=2),
        sign: int = 1,
        fails: set[int] = frozenset(),  # type: ignore[assignment]
        folds: int | None = None,
        models: bool = False,
    ) -> None:
        self.taken: list[tuple[int, int, int]] = []
        self.legs: list[Leg] = []
        self.places: list[str] = []  # what became of each leg
        self.source = Suggestions(SPACE, "random", 3, ["minimize"])
        self.course = Population(
            SPACE,
            self.source,
            settings,
            Legs("loss", folds=folds, numbered=models),
            trials=trials,
            steps=steps,
            sign=sign,
            seed=3,
            take_over=lambda *one: self.taken.append(one),
        )
        waiting: list[list[Leg]] = []
        while True:
            while (legs := self.course.next()) is not None:
                waiting.append(legs)
            if not waiting:
                break
            legs = waiting.pop(0)
            self.legs += legs
            self.course.tell(legs[0].trial, [self._end(leg, value(leg), steps, fails) for leg in legs])
        self.course.close()
        self.trials = self.course.trials

    def _end(self, leg: Leg, value: float, steps: int, fails: set[int]) -> End:
        index = len(self.places)
        self.places.append(f"[{leg.trial} to {leg.stop or steps}]")
        if leg.trial in fails:
            return End(index, None, None, {}, error="it failed")
        stop = leg.stop or steps
        curve = dict.fromkeys(range(1, stop + 1), value)
        why = "paused" if leg.stop else "finished"
        return End(index, why, (value,), curve, 0.0, stop - 1)


def test_the_worst_quarter_goes_on_from_the_best() -> None:
    found = Played(lambda leg: float(leg.trial))
    assert {trial for trial, _, _ in found.taken} == {6, 7}
    assert {donor for _, donor, _ in found.taken} <= {0, 1}
    assert {step for _, _, step in found.taken} == {2}
    second = {leg.trial: leg for leg in found.legs if leg.start == 2}
    assert len(second) == 8, "all trials go on"
    donors = {trial: donor for trial, donor, _ in found.taken}
    for trial, leg in second.items():
        assert leg.after is not None
        assert found.places[leg.after] == f"[{donors.get(trial, trial)} to 2]"
        assert (leg.last, leg.stop) == (1, None)
    assert all(trial.state == "complete" for trial in found.trials)


def test_a_fifth_of_all_steps_is_four_exchanges_at_the_most() -> None:
    assert {step for _, _, step in Played(lambda leg: float(leg.trial), settings=Pbt(), steps=9).taken} == {2, 4, 6, 8}


def test_more_can_be_better() -> None:
    found = Played(lambda leg: float(leg.trial), sign=-1)
    assert {trial for trial, _, _ in found.taken} == {0, 1}


def test_a_trial_takes_over_parameters_moved_within_the_space() -> None:
    found = Played(lambda leg: float(leg.trial), settings=Pbt(every=1, again=0.0), steps=6, trials=12)
    first = {leg.trial: leg.params for leg in found.legs if leg.start == 0}
    trial, donor, _ = found.taken[0]
    (leg,) = [leg for leg in found.legs if leg.trial == trial and leg.start == 1]
    lr = first[donor]["lr"]
    assert leg.params["lr"] in [min(max(lr * factor, 1e-4), 1e-1) for factor in FACTORS]
    assert leg.params["n"] in [min(max(round(first[donor]["n"] * factor), 1), 9) for factor in FACTORS]
    assert isinstance(leg.params["n"], int)
    same = ("kind", "optimizer", "fixed")
    assert [leg.params[name] for name in same] == [first[donor][name] for name in same]
    for leg in found.legs:
        assert 1e-4 <= leg.params["lr"] <= 1e-1
        assert leg.params["n"] in range(1, 10)
        assert ("momentum" in leg.params) == (leg.params["optimizer"] == "sgd")
    assert found.trials[trial].lineage[0] == {"step": 1, "from": donor, "params": first_after(found, trial)}


def test_a_number_that_comes_to_the_end_of_its_range_stays_a_float() -> None:
    found = Played(lambda leg: -leg.params.get("momentum", 0.0), settings=Pbt(every=1, again=0.0), steps=9, trials=12)
    ends = [leg.params["momentum"] for leg in found.legs if leg.params.get("momentum") == 1]
    assert ends
    assert {type(end) for end in ends} == {float}, "another type of number may be another program"


def first_after(found: Played, trial: int) -> dict[str, Any]:
    (leg,) = [leg for leg in found.legs if leg.trial == trial and leg.start == 1]
    return leg.params


def test_parameters_are_drawn_anew_now_and_then() -> None:
    found = Played(lambda leg: float(leg.trial), settings=Pbt(every=1, again=1.0), steps=6, trials=12)
    moved = [leg.params for leg in found.legs if any(leg.trial == trial for trial, _, _ in found.taken)]
    assert len({params["kind"] for params in moved}) > 1
    assert all(1e-4 <= params["lr"] <= 1e-1 for params in moved)


def test_of_models_only_numbers_with_a_fraction_are_moved() -> None:
    """Others may be the width of a layer, and the weights that are taken over would not fit."""
    found = Played(lambda leg: float(leg.trial), settings=Pbt(every=1, again=0.5), steps=6, trials=12, models=True)
    trial, donor, _ = found.taken[-1]
    for name in ("n", "kind", "optimizer"):
        assert found.trials[trial].params[name] == found.trials[donor].params[name]
    assert found.trials[trial].params["lr"] != found.trials[donor].params["lr"]


def test_it_is_the_same_every_time() -> None:
    one, other = (Played(lambda leg: math.sin(leg.trial + leg.start), steps=9) for _ in range(2))
    assert one.legs == other.legs
    assert one.taken


@pytest.mark.parametrize("trials", [2, 3])
def test_in_a_small_population_the_worst_takes_over_from_the_best(trials: int) -> None:
    found = Played(lambda leg: float(leg.trial), trials=trials)
    assert found.taken == [(trials - 1, 0, 2)]


def test_failures_and_nans() -> None:
    found = Played(lambda leg: math.nan if leg.trial == 0 else float(leg.trial), fails={1})
    assert found.trials[1].state == "failed"
    assert [leg.start for leg in found.legs if leg.trial == 1] == [0]
    assert found.taken == [(0, 2, 2)], "of seven, one is a quarter: that without a loss"


def test_optuna_is_told_the_parameters_that_a_trial_ends_with() -> None:
    found = Played(lambda leg: float(leg.trial), trials=12)
    for trial, known in zip(found.trials, found.source.study().trials, strict=True):
        assert known.state.name == "COMPLETE"
        assert known.params == {name: value for name, value in trial.params.items() if name != "fixed"}


def test_folds_take_over_fold_by_fold() -> None:
    found = Played(lambda leg: float(leg.trial) + (leg.fold or 0), folds=2)
    trial, donor, _ = found.taken[0]
    second = [leg for leg in found.legs if leg.trial == trial and leg.start == 2]
    assert [leg.fold for leg in second] == [0, 1]
    assert all(found.places[leg.after or 0] == f"[{donor} to 2]" for leg in second)
    assert found.trials[0].value == 0.5
    assert found.trials[0].spread == 0.5


@pytest.mark.parametrize(
    ("settings", "trials", "steps", "told"),
    [
        (Pbt(every=0), 4, 5, "Pbt(every=0): expected a whole number above 0"),
        (Pbt(share=0.6), 4, 5, "Pbt(share=0.6): expected a number above 0, at most 0.5"),
        (Pbt(share="x"), 4, 5, "Pbt(share='x')"),  # type: ignore[arg-type]
        (Pbt(again=2), 4, 5, "Pbt(again=2): expected a number from 0 to 1"),
        (Pbt(), 1, 5, "trials=1: a population is of two at least"),
        (Pbt(), None, 5, "trials=None: a population is of two at least"),
        (Pbt(), 4, None, "steps=None: sampler='pbt' has to know how many steps a trial has"),
    ],
)
def test_settings_that_cannot_work(settings: Pbt, trials: Any, steps: Any, told: str) -> None:
    (fault,) = settings.faults(trials, steps)
    assert told in fault
