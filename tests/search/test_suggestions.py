"""Who suggests: inside the space, the same for a seed, and different from one another while nobody has been told."""

from __future__ import annotations

import math
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import optuna
import pytest

from tenfold.search import suggestions
from tenfold.search.space import Space, choice, constant, integer, logint, loguniform, uniform
from tenfold.search.suggestions import NAMES, Suggestions

MIXED = {
    "lr": loguniform(1e-4, 1e-1),
    "x": uniform(-1, 1),
    "width": logint(8, 128),
    "depth": integer(1, 3),
    "optimizer": choice(adam={}, sgd={"momentum": uniform(0, 1)}),
    "kind": ["a", "b", [1, 2]],
    "fixed": constant(7),
}
NUMBERS = {"x": uniform(0, 1), "y": uniform(0, 1)}


def loss(params: dict[str, Any]) -> float:
    return (params["x"] - 0.3) ** 2 + abs(math.log10(params.get("lr", 1e-2)) + 2)


def asked(space: dict[str, Any], sampler: Any, seed: int, count: int, at_once: int = 4) -> list[dict[str, Any]]:
    """As a study asks: so many ahead of what it tells."""
    source = Suggestions(Space(space), sampler, seed, ["minimize"])
    found: list[dict[str, Any]] = []
    for number in range(count):
        if number >= at_once:
            told = number - at_once
            source.tell(told, [loss(found[told])], {1: loss(found[told])}, complete=told % 3 > 0)
        params = source.ask()
        assert params is not None
        found.append(params)
    return found


# "gp" takes seconds for a space that is more than numbers
@pytest.mark.parametrize(
    ("sampler", "space"), [*((name, MIXED) for name in NAMES if name not in ("gp", "grid")), ("gp", NUMBERS)]
)
def test_suggestions_are_inside_the_space_and_the_same_for_a_seed(sampler: str, space: dict[str, Any]) -> None:
    first, again = (asked(space, sampler, 5, 18) for _ in range(2))
    assert first == again
    assert first != asked(space, sampler, 6, 18)
    for params in first:
        if space is MIXED:
            assert 1e-4 <= params["lr"] <= 1e-1
            assert -1 <= params["x"] <= 1
            assert params["width"] in range(8, 129)
            assert params["depth"] in (1, 2, 3)
            assert params["kind"] in ("a", "b", [1, 2])
            assert params["fixed"] == 7
            assert ("momentum" in params) == (params["optimizer"] == "sgd")
        else:
            assert all(0 <= params[name] <= 1 for name in space)


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "cma-es", "gp", "nsga"])
def test_suggestions_made_at_once_are_all_different(sampler: str) -> None:
    source = Suggestions(Space(NUMBERS), sampler, 1, ["minimize"])
    for number in range(12):
        params = source.ask()
        assert params is not None
        source.tell(number, [loss(params)], {}, complete=True)
    points = numpy.array([[params["x"], params["y"]] for params in (source.ask() for _ in range(8)) if params])
    apart = numpy.linalg.norm(points[:, None] - points[None], axis=-1)[numpy.triu_indices(8, 1)]
    assert apart.min() > 1e-3


def test_those_of_tpe_do_not_fall_on_one_place() -> None:
    """Without the constant liar, eight suggestions lie on one another; with it, they are spread like single ones."""
    spread = []
    for liar in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the constant liar is called experimental
            sampler = optuna.samplers.TPESampler(seed=2, constant_liar=liar, n_startup_trials=10)
        source = Suggestions(Space({"x": uniform(0, 1)}), sampler if not liar else "tpe", 2, ["minimize"])
        for number in range(40):
            params = source.ask()
            assert params is not None
            source.tell(number, [(params["x"] - 0.3) ** 2], {}, complete=True)
        spread.append(float(numpy.std([params["x"] for params in (source.ask() for _ in range(8)) if params])))
    assert spread[1] > spread[0]
    assert spread[1] > 0.05


def test_tpe_learns_from_what_it_is_told() -> None:
    late = asked({"x": uniform(0, 1)}, "tpe", 0, 60)[40:]
    assert float(numpy.median([abs(params["x"] - 0.3) for params in late])) < 0.15


def test_a_paused_trial_counts_with_what_it_has_reached_and_later_with_more() -> None:
    source = Suggestions(Space(NUMBERS), "tpe", 0, ["minimize"])
    source.ask()
    source.tell(0, [3.0], {1: 3.0}, complete=False)
    assert source.ask() is not None
    (paused, _) = source.study().trials
    assert (paused.state.name, paused.intermediate_values) == ("PRUNED", {1: 3.0})
    source.tell(0, [1.0], {1: 3.0, 3: 1.0}, complete=True)
    source.tell(1, None, {}, complete=False)
    assert source.ask() is not None
    done, failed, _ = source.study().trials
    assert (done.state.name, done.value, failed.state.name) == ("COMPLETE", 1.0, "FAIL")


def test_a_loss_that_is_no_number_is_a_failure_for_the_sampler() -> None:
    source = Suggestions(Space(NUMBERS), "tpe", 0, ["minimize"])
    source.ask()
    source.tell(0, [math.nan], {1: math.nan}, complete=True)
    assert source.ask() is not None
    assert source.study().trials[0].state.name == "FAIL"


def test_a_grid_ends() -> None:
    source = Suggestions(Space({"a": [1, 2], "b": choice(c={"d": [3, 4]}, e={})}), "grid", 0, ["minimize"])
    found = [source.ask() for _ in range(7)]
    assert found[:6] == source._space.grid()
    assert found[6] is None


@pytest.mark.parametrize("name", ["QMCSampler", "BruteForceSampler", "RandomSampler", "TPESampler"])
def test_a_sampler_of_optunas_own(name: str) -> None:
    """It is asked as it would be by Optuna, and it can be used for the next study as it was for this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = getattr(optuna.samplers, name)(seed=3)
    space = {"x": list(range(6)), "y": list(range(5))} if name == "BruteForceSampler" else NUMBERS
    first, again = (asked(space, sampler, 0, 20) for _ in range(2))
    assert len({str(params) for params in first}) == 20, "none of them twice"
    assert first == again


@pytest.mark.parametrize(
    "name", ["TPESampler", "RandomSampler", "QMCSampler", "CmaEsSampler", "NSGAIISampler", "GPSampler"]
)
def test_a_sampler_without_a_seed_has_that_of_the_study(name: str) -> None:
    """As it would be made in two processes, one of which goes on with the other's study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [getattr(optuna.samplers, name)(**({"scramble": True} if name == "QMCSampler" else {})) for _ in "abc"]
    one, same, other = (asked(NUMBERS, sampler, seed, 12) for sampler, seed in zip(made, (3, 3, 4), strict=True))
    assert one == same
    assert one != other


def test_trials_that_are_no_question_any_more() -> None:
    space = Space(MIXED)
    before = asked(MIXED, "random", 9, 3)
    source = Suggestions(space, "tpe", 0, ["minimize"], {0: before[0], 2: before[2]})
    found = [source.ask() for _ in range(3)]
    assert (found[0], found[2]) == (before[0], before[2])
    assert found[1] not in before


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "cma-es", "nsga"])
def test_what_is_suggested_besides_known_trials_is_something_else(sampler: str) -> None:
    before = asked(NUMBERS, sampler, 0, 6, at_once=8)
    source = Suggestions(Space(NUMBERS), sampler, 0, ["minimize"], dict(enumerate(before)))
    found = [source.ask() for _ in range(12)]
    assert found[:6] == before
    assert len({str(params) for params in found}) == 12, "and not the first ones once more"


def test_what_does_not_go_together_is_said() -> None:
    numbers, grid = Space(NUMBERS), Space({"x": [1, 2]})
    assert suggestions.check("tpe", numbers, 5, 1) == []
    assert suggestions.check("grid", grid, None, 1) == []
    (fault,) = suggestions.check("grid", numbers, 5, 1)
    assert "the space has ranges of numbers" in fault
    (fault,) = suggestions.check("tpe", grid, None, 1)
    assert "trials=None: expected how many to try" in fault
    (fault,) = suggestions.check("cma-es", numbers, 5, 2)
    assert "knows one objective, and there are 2; take 'nsga'" in fault
    (fault,) = suggestions.check("tpo", numbers, 5, 1)
    assert "sampler='tpo': expected one of 'tpe', 'random'" in fault
    (fault,) = suggestions.check(5, numbers, 5, 1)
    assert "expected a name, or a sampler of Optuna's" in fault


def test_optuna_says_nothing_and_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    asked(NUMBERS, "tpe", 0, 6)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_studies_in_several_threads_leave_optuna_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    def study(seed: int) -> None:
        source = Suggestions(Space({"x": uniform(0, 1)}), "random", seed, ["minimize"])
        for _ in range(20):
            source.ask()

    level, interval = optuna.logging.get_verbosity(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(study, range(40)))
    finally:
        sys.setswitchinterval(interval)
    assert optuna.logging.get_verbosity() == level
    assert capfd.readouterr() == ("", "")
