"""`measure` on every engine: its cells are filled, and the time of each is split without a gap."""

from __future__ import annotations

import functools
import time

import pytest

import tenfold


def test_a_grid_on_any_engine(engine: str) -> None:
    workers = [1] if engine == "serial" else [1, 2]
    task = functools.partial(tenfold.map, time.sleep, [0.01] * 6)
    study = tenfold.measure(task, workers=workers, sizes=[3, 6], engines=[engine], repeats=1, progress=False)
    assert [cell.failure for cell in study.cells] == [None] * len(workers) * 2
    for cell in study.cells:
        assert cell.setting.engine == engine
        assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
        assert cell.parts["compute"] > 0.01 * (cell.setting.size or 0) / cell.setting.workers * 0.5
