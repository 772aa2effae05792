"""Rows of a part are written as they come: wherever they end up, whatever is left out, and without being held."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.data import placing, preparing
from tenfold.data.opening import source
from tenfold.data.preparing import Preparing
from tenfold.data.source import Part
from tenfold.models.sizing import even

TIMES: dict[str, dict[int, int]] = {
    "one each": {},
    "none of the first": {0: 0},
    "none of the last": {49: 0, 99: 0},
    "two of the first": {0: 2},
    "two of the last": {49: 2},
    "as many as samples": {20: 0, 30: 2},
    "none but one": {n: 0 for n in range(100) if n != 60},
}
"""How many rows become of which samples, where it is not one."""

OPTIONS: dict[str, Any] = {"quarantines": False, "retries": 0, "kept": {}}


@pytest.mark.parametrize("name", TIMES)
def test_rows_are_where_they_belong(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (placing, preparing):
        monkeypatch.setattr(module, "HELD", 160)
    times = numpy.array([TIMES[name].get(n, 1) for n in range(100)])

    def several(n: Any) -> list[Any]:
        return [(n, float(n))] * times[n]

    def in_batches(rows: Any) -> Any:
        return numpy.repeat(rows, times[rows]), numpy.repeat(rows, times[rows]).astype(float)

    for function, options in ((several, {"batch": 50}), (in_batches, {"batch": 50, "batched": True})):
        to = tmp_path / function.__name__
        made = tenfold.prepare(function, numpy.arange(100), to, engine="serial", progress=False, **options)
        for column in made.numpy():
            assert column.tolist() == numpy.repeat(numpy.arange(100), times).tolist()
        assert made.verify() == []


class Wide:
    """Makes 8 kB of 8 bytes, some rows at a time."""

    def at_a_time(self, left: int) -> int:
        return min(left, 64)

    def __call__(self, rows: Any) -> Any:
        return numpy.repeat(rows[:, None], 1024, axis=1)


class Even:
    """Notes how many rows it was given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def at_a_time(self, samples: int) -> int:
        return even(samples, 100)

    def __call__(self, rows: Any) -> Any:
        self.given.append(len(rows))
        return rows


def test_batches_of_a_part_have_one_size(tmp_path: Path) -> None:
    """But for the last: a model that is compiled for a size would have each smaller one filled up, with a copy."""
    function = Even()
    task = Preparing(function, source(numpy.arange(1010)), tmp_path, batched=True, batch=None, **OPTIONS)
    task(Part(0, 1010, None))
    assert function.given == [92] * 10 + [90]


@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_what_is_made_is_not_held(batched: bool, left_out: bool, tmp_path: Path) -> None:
    def wide(number: Any) -> Any:
        return None if left_out and number == 6000 else numpy.full(1024, number)

    given = tenfold.prepare(lambda n: n, numpy.arange(8192), tmp_path / "set", engine="serial", progress=False)
    task = Preparing(Wide() if batched else wide, given, tmp_path, batched=batched, batch=None, **OPTIONS)
    tracemalloc.start()
    try:
        piece = task(Part(0, 8192, None))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert piece.rows == 8192 - (left_out and not batched)
    assert peak < 50e6, "67 MB were made"
