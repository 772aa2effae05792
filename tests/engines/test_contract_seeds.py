"""The contract of every engine: randomness belongs to the task, so every engine draws what a plain loop draws."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy
import pytest

import tenfold


def draw(x: int) -> tuple[Any, ...]:
    """Everything that NumPy and Python draw by themselves, and what tenfold gives."""
    here = tenfold.here()
    return (
        random.random(),
        random.sample(range(1000), 3),
        numpy.random.rand(3).tolist(),
        numpy.random.permutation(10).tolist(),
        here.rng.normal(size=2).tolist(),
        here.seed,
    )


def plain_loop(count: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """What tenfold promises, without tenfold."""
    state, array = random.getstate(), numpy.random.get_state()
    found = []
    for own in numpy.random.SeedSequence(seed).spawn(count):
        number = int(own.generate_state(1)[0])
        random.seed(number)
        numpy.random.seed(number)
        rng = numpy.random.default_rng(own)
        found.append(
            (
                random.random(),
                random.sample(range(1000), 3),
                numpy.random.rand(3).tolist(),
                numpy.random.permutation(10).tolist(),
                rng.normal(size=2).tolist(),
                number,
            )
        )
    random.setstate(state)
    numpy.random.set_state(array)
    return found


@pytest.mark.parametrize(("workers", "seed"), [(1, 0), (2, 2**70), (3, 12345)])
def test_every_engine_draws_what_a_plain_loop_draws(engine: str, workers: int, seed: int) -> None:
    results = tenfold.map(draw, range(12), engine=engine, workers=workers, seed=seed)
    assert results[:] == plain_loop(12, seed)


def test_tasks_and_seeds_differ() -> None:
    found = [entry[0] for seed in (0, 1) for entry in tenfold.map(draw, range(20), seed=seed, engine="serial")]
    assert len(set(found)) == 40


def test_tiny_tasks_in_batches_draw_the_same(engine: str) -> None:
    def tiny(x: int) -> float:
        return random.random()

    expected = [entry[0] for entry in plain_loop(500)]
    assert tenfold.map(tiny, range(500), engine=engine)[:] == expected


def _draw_one() -> float:
    return random.random()


def _draw_scaled(scale: float) -> float:
    return scale * random.random()


class Trial:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self) -> float:
        return random.random()

    def __add__(self, other: object) -> float:
        return random.random()

    def __getitem__(self, key: object) -> float:
        return random.random()


@pytest.mark.parametrize(
    ("function", "item"),
    [
        (lambda f: f(), _draw_one),
        (lambda f: f(), functools.partial(_draw_scaled, 1.0)),
        (lambda f: f(), Trial(1)),
        (lambda f: f[0](), [_draw_one]),
        (lambda f: f + 1, Trial(1)),
        (lambda f: f["loss"], Trial(1)),
        (lambda f: max(g() for g in f), [_draw_one]),
        (lambda f: sum(map(Trial.__call__, [f])), Trial(1)),
    ],
    ids=["function", "partial", "object", "in a list", "operator", "subscript", "generator", "map"],
)
def test_random_numbers_that_the_item_draws_are_the_tasks_too(engine: str, function: Any, item: Any) -> None:
    expected = [entry[0] for entry in plain_loop(4)]
    assert tenfold.map(function, [item] * 4, engine=engine)[:] == expected


def test_the_callers_random_numbers_stay_as_they_were(engine: str) -> None:
    random.seed(1)
    numpy.random.seed(1)
    expected = random.random(), numpy.random.rand()
    random.seed(1)
    numpy.random.seed(1)
    tenfold.map(draw, range(3), engine=engine)
    assert (random.random(), numpy.random.rand()) == expected


def test_a_nested_call_does_not_move_the_tasks_own_random_numbers(engine: str) -> None:
    def nested(x: int) -> float:
        tenfold.map(draw, range(3), engine="serial", seed=99)
        return random.random()

    assert tenfold.map(nested, range(3), engine=engine)[:] == [entry[0] for entry in plain_loop(3)]


def test_frameworks_that_a_task_imports_by_itself_are_seeded_too(engine: str) -> None:
    """The import is hidden from everything that reads the function's code."""

    def hidden(x: int) -> float:
        numpy = __import__("".join(["num", "py"]))
        return float(numpy.random.rand())

    first = tenfold.map(hidden, range(4), engine=engine)[:]
    assert len(set(first)) == 4
    assert tenfold.map(hidden, range(4), engine=engine)[:] == first
