"""`tenfold.measure` of models: many of them as `map` trains them, one as `train` does; where their time went."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.scaling.split import split
from tenfold.verbs.observed import observed

WIDTHS = [4, 8] * 4  # models that follow one another are not alike


def _net(width: int = 4, rate: float = 0.1) -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
    return module, torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), rate)


def _fit(epochs: int = 20) -> tenfold.Fit:
    rows = numpy.random.default_rng(0).random((256, 4), dtype=numpy.float32)
    return tenfold.Fit(_net, (rows, rows.sum(axis=1, keepdims=True)), epochs=epochs, batch_size=32)


def test_models_that_are_trained_together_have_taken_the_time_of_their_group() -> None:
    began = time.monotonic()
    with observed() as seen:
        found = tenfold.map(_fit(), [{"width": width} for width in WIDTHS], workers=1, progress=False)
    wall = time.monotonic() - began
    assert {result.how.split(":")[0] for result in found} <= {"fused", "looped"}
    parts = split(wall, seen.shifts)
    assert parts["compute"] == pytest.approx(sum(outcome.seconds for outcome in found.outcomes))
    assert sum(parts.values()) == pytest.approx(wall)
    (shift,) = seen.shifts
    until_the_last = max(spell.ended for spell in shift.spells) - shift.began
    assert sum(parts.values()) - parts["rest"] == pytest.approx(until_the_last)


@pytest.mark.parametrize("options", [{}, {"mesh": (1, 2)}, {"stages": 2}])
def test_what_the_workers_of_a_model_in_parts_send_each_other(options: dict[str, Any]) -> None:
    task = functools.partial(tenfold.train, _fit(2), {"width": 256, "rate": 0.001}, how="sharded", **options)
    study = tenfold.measure(task, workers=[2], repeats=1, progress=False)
    (cell,) = study.cells
    assert (cell.failure, cell.setting.how) == (None, "sharded")
    assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
    assert min(cell.parts.values()) >= 0
    assert all(cell.parts[part] > 0 for part in ("startup", "input", "compute", "communication"))
    assert "is a part of their program, and compute" not in study.report().markdown()


def test_ways_to_train_many_models() -> None:
    ways = ["fused", "looped", "alone"]
    task = functools.partial(tenfold.map, _fit(), [{"width": width} for width in WIDTHS])
    study = tenfold.measure(task, workers=[1, 2], sizes=[8], hows=ways, repeats=1, progress=False)
    assert [cell.failure for cell in study.cells] == [None] * 6
    for how in ways:
        for cell in study.of(how=how).cells:
            assert cell.repeats[0].items == 8
            assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
            assert min(cell.parts.values()) >= 0
            assert cell.parts["compute"] > 0
