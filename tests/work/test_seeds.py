"""Each task's own random numbers: the same whoever runs it, and the caller's given back."""

from __future__ import annotations

import contextlib
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.plan.seats import Seat
from tenfold.work import seeds
from tenfold.work.run import Job, Runner


@given(st.integers(0, 2**40), st.integers(1, 30))
def test_the_sequence_of_a_task_is_the_one_that_numpy_spawns(seed: int, count: int) -> None:
    spawned = np.random.SeedSequence(seed).spawn(count)
    for index in range(count):
        ours = seeds.sequence(seed, index)
        assert ours.generate_state(4).tolist() == spawned[index].generate_state(4).tolist()
        assert seeds.number(seed, index) == int(spawned[index].generate_state(1)[0])
        assert 0 <= seeds.number(seed, index) < 2**32


def test_numbers_are_kept_for_ever() -> None:
    """A run that is resumed by a later version must go on with the same numbers: these are NumPy 2.4's own."""
    assert [seeds.number(0, index) for index in range(3)] == [3757552657, 673228719, 3241444873]
    assert seeds.number(2026, 10**5) == 3800934951


def test_tasks_have_different_numbers() -> None:
    assert len({seeds.number(seed, index) for seed in range(10) for index in range(100)}) == 1000


def drawn() -> tuple[float, float]:
    return random.random(), float(np.random.random())


def test_planting_twice_gives_the_same_numbers() -> None:
    with seeds.restored():
        seeds.plant(5)
        first = drawn()
        seeds.plant(6)
        other = drawn()
        seeds.plant(5)
        assert drawn() == first
        assert other != first


def test_the_numbers_of_the_caller_are_given_back() -> None:
    random.seed(1)
    np.random.seed(1)
    expected = [drawn() for _ in range(3)]
    random.seed(1)
    np.random.seed(1)
    found = [drawn()]
    with seeds.restored():
        seeds.plant(99)
        drawn()
    found.append(drawn())
    with contextlib.suppress(ZeroDivisionError), seeds.restored():
        seeds.plant(99)
        raise ZeroDivisionError
    found.append(drawn())
    assert found == expected


# -- tasks that need no seed ------------------------------------------------------------------------------------------

LIMIT = 10
GENERATOR = random.Random(3)


def arithmetic(x: float) -> float:
    total = 0.0
    for n in range(int(x)):
        total += math.sin(n) ** 2 if n < LIMIT else abs(n - x)
    return total


def with_defaults(x: int, factor: int = 3) -> int:
    return x * factor


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: None,
        lambda x: (x, x * 2, "text"),
        lambda x: math.sqrt(x) * math.pi,
        lambda x: operator.add(x, 1),
        lambda x: x if x > LIMIT else -x,
        arithmetic,
        abs,
        math.factorial,
        operator.neg,
    ],
)
def test_arithmetic_needs_no_seed(function: Callable[..., Any]) -> None:
    assert seeds.draws_none(function)


def global_helper(x: int) -> float:
    return random.random()


def global_writer(x: int) -> None:
    global LIMIT
    LIMIT = x


def importing(x: int) -> float:
    from random import random

    return random()


class Called:
    def __call__(self, x: int) -> float:
        return random.random()


def closing_over(draw: Callable[[], float]) -> Callable[[int], float]:
    return lambda x: draw()


def keyword_default(x: int, *, draw: Callable[[], float] = random.random) -> float:
    return draw()


def positional_default(x: int, draw: Callable[[], float] = random.random) -> float:
    return draw()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: random.random(),
        lambda x: np.random.random(),
        lambda x: GENERATOR.random(),
        lambda x: global_helper(x),
        lambda x: x.sample(),
        lambda x: [n + 1 for n in (lambda: x)()],
        lambda x: eval("__import__('random').random()"),
        lambda x: getattr(x, "random")(),
        lambda x: print(x),
        lambda x: sorted(x, key=global_helper),
        lambda x: unknown_name(x),  # type: ignore[name-defined]  # noqa: F821
        lambda x: math.no_such_name(x),  # type: ignore[attr-defined]
        global_writer,
        importing,
        Called(),
        closing_over(random.random),
        keyword_default,
        positional_default,
        random.random,
        np.random.random,
        np.sin,
        print,
        Called,
    ],
)
def test_anything_else_may_end_in_a_random_number(function: Callable[..., Any]) -> None:
    assert not seeds.draws_none(function)


# -- seen from a task -------------------------------------------------------------------------------------------------


class Shuffled:
    """Draws when it is iterated over, as a data loader that shuffles does."""

    def __iter__(self) -> Any:
        return iter([random.random()])


class Noisy:
    """Draws when it is calculated with."""

    def __add__(self, other: int) -> float:
        return random.random() + other


@pytest.mark.parametrize(
    ("function", "item"),
    [
        (lambda x: random.random(), 0),
        (lambda draw: draw(), random.random),
        (lambda loader: sum(loader), Shuffled()),
        (sum, Shuffled()),
        (lambda x: x + 1, Noisy()),
        (lambda x, draw=random.random: draw(), 0),
    ],
    ids=["named", "the item is called", "iterated over", "a builtin", "calculated with", "a default"],
)
def test_a_task_that_draws_gets_its_own_numbers(function: Any, item: Any) -> None:
    with seeds.restored(), Runner(function, Job(7, "", True, ()), Seat(0, 1, ()), None, whole_process=False) as runner:
        first = runner.run(3, 1, item)[:2]
        runner.run(4, 1, item)
        again = runner.run(3, 2, item)[:2]
    assert first[0]
    assert first == again
