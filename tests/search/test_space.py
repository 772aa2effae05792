"""What may be tried: checked as a whole, counted as a grid, with branches that have parameters of their own."""

from __future__ import annotations

from typing import Any

import numpy
import optuna
import pytest
import scipy.stats

from tenfold.errors import BadCall
from tenfold.search.space import Space, choice, constant, integer, logint, loguniform, uniform

BRANCHES = {
    "width": [4, 8],
    "optimizer": choice(adam={"rate": [1, 2]}, sgd={"rate": [3], "momentum": [0.5, 0.9]}),
    "depth": constant(2),
}


def test_all_faults_are_in_one_message() -> None:
    bad = {
        "a": uniform(2, 1),
        "b": loguniform(0, 1),
        "c": integer(1, 2.5),  # type: ignore[arg-type]
        "d": uniform("x", float("nan")),  # type: ignore[arg-type]
        "e": choice(),
        "f": choice(1, 2, 1),
        "g": choice(adam=3, sgd={"h": logint(-1, 4)}),  # type: ignore[arg-type]
        "i": scipy.stats.uniform(0, 1),
        "j": {"deep": [1, {"lr": uniform(0, 1)}]},
        "k": [uniform(0, 1), uniform(2, 3)],
        "l": choice("auto", integer(0, 1), sgd={"n": constant(choice(1, 2))}),
        "m": uniform,
        "n": {1, 2},
        "o": {"p": 1}.keys(),
        "q": map(int, "12"),
        "r": [loguniform],
        "s": (1e-4, 1e-1),
        7: [1],
        "": [1],
    }
    with pytest.raises(BadCall) as found:
        Space(bad)
    told = str(found.value)
    for fault in (
        "a: uniform(2, 1): the first must be below the second",
        "b: loguniform(0, 1): on a logarithmic scale, expected numbers above 0",
        "c: integer(1, 2.5): expected whole numbers",
        "d: uniform('x', nan): expected two numbers",
        "e: choice(): expected at least one value",
        "f: choice: 1 stands there twice",
        "g: choice(adam=3): expected a dict of that branch's own parameters",
        "g=sgd: h: logint(-1, 4): on a logarithmic scale, expected numbers above 0",
        "i: <scipy.stats",
        "expected one of tenfold's",
        "j: Number(low=0, high=1, whole=False, log=False) is within another value; give it a name of its own",
        "k: Number(low=2, high=3",
        "l: Number(low=0, high=1, whole=True",
        "l=sgd: n: Choice(options=(1, 2)",
        "m: uniform: expected what it makes, such as tenfold.uniform(0, 1)",
        "n: {1, 2}: expected a list",
        "o: dict_keys(['p']): expected a list",
        "q: <map object",
        "r: loguniform: expected what it makes",
        "s: (0.0001, 0.1): expected tenfold.uniform(0.0001, 0.1) or the like",
        "7: expected a name",
        "'': expected a name",
    ):
        assert fault in told, fault


def test_tuples_that_cannot_be_ranges_are_lists() -> None:
    assert len(Space({"a": ("x", "y"), "b": (2, 1), "c": (1, 2, 3), "d": (True, False)}).grid()) == 24


@pytest.mark.parametrize("given", [None, {}, [], "lr", 3])
def test_what_is_no_space(given: Any) -> None:
    with pytest.raises(BadCall, match="expected a dict such as"):
        Space(given)


def test_numbers_of_numpy_are_numbers() -> None:
    assert Space({"x": numpy.linspace(0, 1, 3)}).grid() == [{"x": 0.0}, {"x": 0.5}, {"x": 1.0}]
    found = Space({"n": integer(numpy.int64(1), numpy.int32(3)), "x": uniform(numpy.float32(0), numpy.float64(1))})
    assert not found.is_grid


@pytest.mark.parametrize(
    "given",
    [
        {"rate": [1], "optimizer": choice(adam={"rate": [2]})},
        {"optimizer": choice(adam={"optimizer": [1]})},
        {"one": choice(a={"rate": [1]}), "two": choice(b={"rate": [2]})},
        {"one": choice(a={"inner": choice(b={"rate": [1]}), "rate": [1]})},
    ],
    ids=["above", "itself", "beside", "deep"],
)
def test_a_name_that_one_trial_could_have_twice_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadCall, match="stands there twice, and one trial could have both"):
        Space(given)


def test_a_grid_has_every_point_in_the_order_of_its_lists() -> None:
    space = Space({"a": [1, 2], "b": (True, None), "c": range(2), "d": "x"})
    assert space.is_grid
    points = [(p["a"], p["b"], p["c"], p["d"]) for p in space.grid()]
    assert points == [(a, b, c, "x") for a in (1, 2) for b in (True, None) for c in (0, 1)]


def test_a_branch_has_its_parameters_only_where_it_is_chosen() -> None:
    points = Space(BRANCHES).grid()
    assert len(points) == 2 * (2 + 2)
    assert all(set(p) == {"width", "optimizer", "depth", "rate"} for p in points if p["optimizer"] == "adam")
    assert all("momentum" in p and p["rate"] == 3 for p in points if p["optimizer"] == "sgd")


def test_the_same_name_in_two_branches_is_two_parameters_for_optuna() -> None:
    labels = Space(BRANCHES).labels()
    assert labels[0] == {"width": 4, "optimizer": "adam", "optimizer.adam.rate": 1}
    assert labels[2] == {"width": 4, "optimizer": "sgd", "optimizer.sgd.rate": 3, "momentum": 0.5}


def test_parameters_are_known_again_by_their_labels() -> None:
    space = Space(BRANCHES)
    assert [space.known(params) for params in space.grid()] == space.labels()


def test_anything_can_be_chosen_and_true_is_not_1() -> None:
    values = [1, True, 1.0, "1", None, [1, 2], {"a": 1}, len]
    space = Space({"x": values})
    found = [point["x"] for point in space.grid()]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]


def test_numbers_of_numpy_and_nan_are_chosen_as_what_they_are() -> None:
    values = [float("nan"), 1.0, numpy.int64(2), numpy.float32(0.5)]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space({"x": values})
    found = {repr(space.suggest(study.ask())["x"]) for _ in range(30)}
    assert found == set(map(repr, values))
    assert {str(trial.params["x"]) for trial in study.trials} == {"nan", "1.0", "2", "0.5"}


def test_numbers_and_choices_of_a_trial() -> None:
    space = Space({"x": uniform(0, 1), "o": choice(a={"y": integer(1, 9)}, b={"z": [1, 2]}), "k": [5, 6], "c": 3})
    params = {"x": 0.5, "o": "a", "y": 4, "k": 5, "c": 3}
    assert list(space.numbers(params)) == ["x", "y"]
    assert list(space.choices(params)) == ["k"], "a choice with branches is not one that can be taken for another"
    assert not space.is_grid


def test_a_space_that_was_kept_knows_trials_by_the_same_names() -> None:
    given = {
        "lr": loguniform(1e-4, numpy.float32(0.5)),
        "width": logint(4, 64),
        "act": [None, True, 1, 1.5, "relu", (2, 3)],
        "how": choice("plain", sgd={"nesterov": [True, False], "rate": uniform(0, 1)}),
        "seed": object(),
    }
    space = Space(given)
    kept = Space.from_json(space.to_json())
    assert kept.to_json() == space.to_json()
    params = {"lr": 0.1, "width": 8, "act": (2, 3), "how": "sgd", "nesterov": True, "rate": 0.5, "seed": 1}
    assert kept.known(params) == space.known(params)
    assert {name: number.log for name, number in kept.numbers(params).items()} == {
        "lr": True,
        "width": True,
        "rate": False,
    }
