"""How many samples a function of batches is given where nobody says: decided from figures, and seen in a set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.data import tuning
from tenfold.plan import batches
from tenfold.plan.batches import Tried

ROWS = numpy.random.default_rng(0).random((4096, 8))


def test_sizes_grow_to_all_samples() -> None:
    assert tuning.ladder(1) == [1]
    assert tuning.ladder(100) == [1, 2, 7, 25, 100]


def test_a_size_is_left_where_a_call_costs_little_beside_its_rows() -> None:
    tried = [Tried(1, 11e-6, 0), Tried(4, 14e-6, 0)]
    assert tuning.goes_on(tried, 16, 100)
    tried += [Tried(16, 26e-6, 0), Tried(64, 74e-6, 0), Tried(256, 266e-6, 0)]
    assert tuning.goes_on(tried, 1024, 100)
    tried.append(Tried(1024, 1034e-6, 0))
    assert not tuning.goes_on(tried, 4096, 100)
    assert batches.chosen(tried, 100) == 1024


def test_a_size_fits_in_memory_and_is_not_long() -> None:
    assert not tuning.goes_on([Tried(4, 1e-3, 40)], 16, 100)
    assert not tuning.goes_on([Tried(4, 1.0, 0)], 16, 100)
    assert batches.chosen([Tried(1, 1.0, 40), Tried(4, 1.0, 160)], 100) == 1
    assert batches.even(100, 64) == 50


ROOM = numpy.empty_like(ROWS)


def in_room(batch: Any) -> Any:
    return numpy.subtract(batch, batch.mean(0), out=ROOM[: len(batch)])


def ends(batch: Any) -> Any:
    raise SystemExit("the file is not what it should be")


def grown(batch: Any) -> Any:
    return numpy.repeat(batch[:, None], 4000, axis=1).sum((1, 2))


@pytest.mark.parametrize(
    ("function", "limit", "expected"),
    [
        (lambda batch: batch - batch.mean(0), 1 << 30, {0}),
        (lambda batch: batch + numpy.random.random(batch.shape), 1 << 30, {0}),
        (in_room, 1 << 30, {0}),
        (lambda batch: numpy.diff(batch, axis=0, prepend=batch[:1]), 1 << 30, {0}),
        (lambda batch: None, 1 << 30, {0}),
        (ends, 1 << 30, {None}),
        (lambda batch: batch if len(batch) < 2 else batch["none"], 1 << 30, {None}),
        (grown, 10 << 20, set(range(1, 65))),
    ],
    ids=["of all", "draws", "of all, in one room", "of the one before", "nothing", "ends", "fails", "takes memory"],
)
def test_what_is_found(function: Callable[[Any], Any], limit: int, expected: set[int | None]) -> None:
    before = ROWS.copy()
    assert tuning.best_size(function, ROWS, limit) in expected
    assert (before == ROWS).all()


def in_place(batch: Any) -> Any:
    batch *= 2
    return batch[batch[:, 0] > 1]


def test_rows_are_the_same_as_of_any_size_and_tasks_draw_as_if_nothing_was_tried(tmp_path: Path) -> None:
    def drawn(batch: Any) -> Any:
        return batch + tenfold.here().rng.random(batch.shape) + numpy.random.random(batch.shape)

    def made(function: Callable[[Any], Any], name: str, **options: Any) -> Any:
        return tenfold.prepare(function, ROWS, tmp_path / name, batched=True, progress=False, **options).numpy()

    assert (made(in_place, "tuned") == made(in_place, "given", batch=5)).all()
    # A part has 16 rows; with batches of that size nothing is tried.
    assert (made(drawn, "drawn") == made(drawn, "drawn given", batch=16)).all()


def test_more_rows_make_only_these_whatever_size_was_found(tmp_path: Path) -> None:
    log = tmp_path / "rows"

    def noted(batch: Any) -> Any:
        with open(log, "a") as file:
            file.writelines(f"{number}\n" for number in batch[:, 0])
        return batch

    def made(rows: Any) -> set[float]:
        log.write_text("")
        found = tenfold.prepare(noted, rows, tmp_path / "set", batched=True, progress=False)
        assert (found.numpy() == rows).all()
        return set(map(float, log.read_text().split()))

    numbers = numpy.arange(10_000.0).reshape(-1, 1)
    assert made(numbers[:9000]) == set(range(9000))
    assert made(numbers[:9000]) == set()
    assert min(made(numbers[:9100])) >= 8900
