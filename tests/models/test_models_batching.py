"""Any number of rows in batches of one size, and the nesting of rows and outputs."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from tenfold.errors import BadCall
from tenfold.models import nesting
from tenfold.models.batching import batched


class Asked:
    """A function of rows that remembers its batches."""

    def __init__(self, function: Callable[[Any], Any], *, fixed: bool) -> None:
        self._function = function
        self.fixed = fixed
        self.batches: list[Any] = []

    def __call__(self, rows: Any) -> Any:
        self.batches.append(rows)
        return nesting.settled(self._function(rows))


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("fixed", [True, False])
def test_outputs_are_in_the_order_of_the_rows(length: int, fixed: bool) -> None:
    rows = numpy.arange(length * 2.0).reshape(length, 2)
    asked = Asked(lambda given: given * 2, fixed=fixed)
    numpy.testing.assert_array_equal(batched(asked, rows, 4), rows * 2)
    sizes = [len(batch) for batch in asked.batches]
    assert sum(sizes) - length < 4
    assert set(sizes) == {4} if fixed else sum(sizes) == length


def test_the_last_row_is_repeated_to_fill_the_last_batch() -> None:
    asked = Asked(lambda given: given, fixed=True)
    batched(asked, numpy.arange(6), 4)
    assert asked.batches[-1].tolist() == [4, 5, 5, 5]


def test_full_batches_are_not_copied() -> None:
    rows = numpy.arange(10.0)
    asked = Asked(lambda given: given, fixed=True)
    batched(asked, rows, 4)
    assert [numpy.shares_memory(batch, rows) for batch in asked.batches] == [True, True, False]


def test_outputs_do_not_lie_in_the_memory_of_the_rows() -> None:
    rows = numpy.arange(3.0)
    assert not numpy.shares_memory(batched(Asked(lambda given: given[:], fixed=False), rows, 4), rows)


def test_no_rows_give_no_outputs() -> None:
    found = batched(Asked(lambda given: given @ numpy.ones((3, 2)), fixed=True), numpy.empty((0, 3)), 4)
    assert found.shape == (0, 2)


def test_several_inputs_and_outputs_keep_their_nesting() -> None:
    rows = {"a": numpy.arange(7.0), "b": (numpy.arange(14).reshape(7, 2), numpy.arange(7) > 3)}
    found = batched(Asked(lambda given: (given["a"], {"x": given["b"][0], "y": given["b"][1]}), fixed=True), rows, 3)
    numpy.testing.assert_array_equal(found[0], rows["a"])
    numpy.testing.assert_array_equal(found[1]["x"], rows["b"][0])
    assert found[1]["y"].dtype == bool


def test_later_outputs_lose_nothing() -> None:
    """Longer texts, and numbers that need another type."""
    texts = ["a", "bb", "ccc", "dddd"]
    assert batched(Asked(lambda given: numpy.array(given), fixed=False), texts, 1).tolist() == texts
    mixed = batched(Asked(lambda given: numpy.asarray(given[:1]), fixed=False), [1, 2.5], 1)
    assert mixed.tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda given: given.sum(), "gave an array of the shape ()"),
        (lambda given: given[:1], "expected a value for each row"),
        (lambda given: numpy.zeros((len(given), int(given[0]) + 1)), "expected one shape for all rows"),
    ],
)
def test_a_model_that_gives_something_else_is_refused(function: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(BadCall, match=words.replace("(", r"\(").replace(")", r"\)")):
        batched(Asked(function, fixed=False), numpy.arange(8.0), 4)


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadCall, match=r"arrays of one length, got \[3, 4\]"):
        batched(Asked(lambda given: given, fixed=True), (numpy.zeros(3), numpy.zeros(4)), 2)


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(BadCall, match="batch_size=0"):
        batched(Asked(lambda given: given, fixed=True), numpy.zeros(3), 0)


def test_one_output_of_several_by_its_name() -> None:
    pair = namedtuple("pair", "first second")(1, 2)
    assert nesting.chosen(pair, "second") == 2
    assert nesting.chosen({"a": 3}, "a") == 3
    assert nesting.chosen((1, 2), None) == (1, 2)
    with pytest.raises(BadCall, match="expected one of 'first', 'second'"):
        nesting.chosen(pair, "third")
    with pytest.raises(BadCall, match="its outputs have no names"):
        nesting.chosen((1, 2), "first")
