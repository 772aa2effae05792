"""`tenfold.measure`: the grid is run as asked, failures and kills cost one cell, and the parts add up."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
import tenfold
import waiting
from tenfold.errors import BadCall
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.heldout import heldout

quiet = functools.partial(tenfold.measure, progress=False)


def sleeps(workers: int, size: int) -> None:
    time.sleep(size / 1000 / workers)


def double(row: Any) -> Any:
    return row * 2


def test_a_function_of_workers_and_size() -> None:
    study = quiet(sleeps, workers=[1, 2, 4], sizes=[40, 80], repeats=2)
    assert [cell.setting for cell in study.cells] == [Setting(n, s) for s in (40, 80) for n in (1, 2, 4)]
    for cell in study.cells:
        assert len(cell.repeats) == 2
        assert cell.memory > 1 << 20 or sys.platform != "linux"
        assert cell.seconds >= (cell.setting.size or 0) / 1000 / cell.setting.workers
        assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
    assert study.law is not None
    assert study.law.throughput(8).value > study.law.throughput(4).value
    assert study.breakeven[4] < 40
    assert "Fastest: 4 workers" in study.advice[0]
    assert "4 workers, size 80" in str(study)
    assert repr(study) == "<ScalingStudy of sleeps: 6 cells>"


def test_a_number_that_is_returned_is_how_many_went_through() -> None:
    (cell,) = quiet(lambda workers, size: 500, workers=[1], repeats=1).cells
    assert cell.repeats[0].items == 500


def test_a_map_has_its_time_split() -> None:
    study = quiet(functools.partial(tenfold.map, time.sleep, [0.02] * 8), workers=[1, 2], sizes=[4, 8], repeats=1)
    for cell in study.cells:
        size, workers = cell.setting.size, cell.setting.workers
        assert size is not None
        assert cell.repeats[0].items == size
        assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
        assert 0.02 * size / workers * 0.9 < cell.parts["compute"] < cell.seconds
        assert cell.parts["startup"] > 0
        assert cell.memory > 1 << 20


@pytest.mark.parametrize("verb", ["prepare", "predict", "evaluate"])
def test_verbs_that_read_a_source(verb: str) -> None:
    rows = numpy.arange(400, dtype=float).reshape(100, 4)
    tasks = {
        "prepare": functools.partial(tenfold.prepare, double, rows),
        "predict": functools.partial(tenfold.predict, double, rows),
        "evaluate": functools.partial(tenfold.evaluate, _first, (rows, rows[:, 0]), ["mse"]),
    }
    study = quiet(tasks[verb], workers=[1, 2], sizes=[50, 100], repeats=1)
    assert [cell.failure for cell in study.cells] == [None] * 4
    assert [cell.repeats[0].items for cell in study.cells] == [50, 50, 100, 100]
    for cell in study.cells:
        assert sum(cell.parts.values()) == pytest.approx(cell.seconds)


@pytest.mark.parametrize("verb", [tenfold.prepare, tenfold.evaluate])
def test_a_source_that_is_slow_to_read_is_input(verb: Any) -> None:
    options = {tenfold.prepare: (double, Slow()), tenfold.evaluate: (_first, (Slow(), numpy.zeros(8)), ["mse"])}
    (cell,) = quiet(functools.partial(verb, *options[verb]), workers=[1], repeats=1).cells
    assert cell.failure is None
    assert cell.parts["input"] >= 8 * Slow.SECONDS


class Slow:
    """Rows like those of a `Dataset` of PyTorch, each of which takes its time."""

    SECONDS = 0.01

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        if not 0 <= place < 8:
            raise IndexError(place)
        time.sleep(self.SECONDS)
        return numpy.full(4, place, dtype=float)


def _first(rows: Any) -> Any:
    return rows[:, 0]


def _line(lr: float = 0.1) -> Any:
    import torch

    module = torch.nn.Linear(4, 1)
    return module, torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), lr)


def _fit() -> Any:
    rows = numpy.random.default_rng(0).random((256, 4), dtype=numpy.float32)
    return tenfold.Fit(_line, (rows, rows.sum(axis=1, keepdims=True)), epochs=2, batch_size=32)


def test_a_fit_is_trained_and_its_step_is_explained() -> None:
    study = quiet(_fit(), workers=[1, 2], sizes=[128, 256], repeats=1, hows=["synchronous"])
    assert [cell.failure for cell in study.cells] == [None] * 4
    assert [cell.repeats[0].steps for cell in study.cells] == [8, 8, 16, 16]
    for cell in study.cells:
        assert sum(cell.parts.values()) == pytest.approx(cell.seconds)
        assert min(cell.parts.values()) >= 0
    two = study.cells[-1]
    assert two.repeats[0].parameters == 5
    assert two.repeats[0].items == 512
    assert two.parts["communication"] + two.parts["waiting"] > 0
    assert str(study.step).startswith("Step: compute for a sample")
    with pytest.raises(BadCall, match="latenzy: unknown to project, which takes batch, how"):
        study.project(8, latenzy="5us")
    projected = study.project([8, 64], network="25Gbit", parameters=25e6)
    assert 0 < projected[64].efficiency <= projected[8].efficiency <= 1.01
    assert projected[64].low <= projected[64].throughput <= projected[64].high


def test_ways_are_studies_of_their_own() -> None:
    study = quiet(_fit(), workers=[1], hows=["synchronous", "asynchronous"], repeats=1)
    with pytest.raises(BadCall, match=r"laws: there are how='asynchronous', engine=None; how='synchronous'"):
        study.laws
    explained = next(one for one in study.report().sections if one.heading == "What explains it")
    assert [part.text.split(":")[0] for part in explained.parts] == ["asynchronous", "synchronous", "synchronous"]  # type: ignore[union-attr]
    one = study.of(how="asynchronous")
    assert [cell.setting.how for cell in one.cells] == ["asynchronous"]
    with pytest.raises(BadCall, match="how='sharded': nothing was measured with that"):
        study.of(how="sharded")


def test_engines_are_studies_of_their_own_and_a_function_runs_on_each() -> None:
    def who(workers: int, size: int) -> int:
        (pid,) = tenfold.map(_pid, [0], workers=workers, progress=False)
        return 1000 if pid == os.getpid() else 2000  # as items, which come back

    study = quiet(who, workers=[1], engines=["serial", "local"], repeats=1)
    assert study.of(engine="serial").cells[0].repeats[0].items == 1000
    assert study.of(engine="local").cells[0].repeats[0].items == 2000
    with pytest.raises(BadCall, match=r"laws: there are how=None, engine='local'; how=None, engine='serial'"):
        study.laws
    called = quiet(functools.partial(tenfold.map, double, [1, 2]), workers=[1], engines=["serial", "local"], repeats=1)
    assert {cell.setting.engine: cell.failure for cell in called.cells} == {"serial": None, "local": None}


def _pid(_: int) -> int:
    return os.getpid()


def test_the_order_is_interleaved_and_seeded() -> None:
    def rounds(seed: int) -> list[list[tuple[int, int]]]:
        seen: list[tuple[int, int]] = []
        quiet(lambda workers, size: seen.append((workers, size)), workers=[1, 2, 3], sizes=[1, 2], repeats=4, seed=seed)
        return [seen[start : start + 6] for start in range(1, 25, 6)]  # the first is the warm-up

    first = rounds(0)
    assert [len(set(one)) for one in first] == [6] * 4
    assert len(set(map(tuple, first))) > 1
    assert rounds(0) == first
    assert rounds(1) != first


def test_what_is_left_of_the_budget_goes_to_cells_whose_time_is_not_known() -> None:
    turns = itertools.count()

    def task(workers: int, size: int) -> None:
        time.sleep(0.2 if size == 1 else 0.05 * (next(turns) % 2))

    calm, wild = quiet(task, workers=[1], sizes=[1, 2], repeats=2, budget=60).cells
    assert calm.doubt <= 0.05
    assert len(wild.repeats) == 10  # five times `repeats`, which is the most
    assert len(calm.repeats) < 10


def test_a_grid_that_was_measured_predicts_the_size_that_was_held_out() -> None:
    def task(workers: int, size: int) -> None:
        time.sleep(0.02 + size * (0.0002 + 0.002 / workers))

    study = quiet(task, workers=[1, 2, 4], sizes=[20, 40, 80], repeats=2)
    largest = [cell.setting for cell in study.cells if cell.setting.size == 80]
    found = heldout(study.cells, largest)
    assert [held.setting for held in found.cells] == largest
    assert found.error < 0.25


def test_a_cell_that_fails_costs_itself_alone() -> None:
    def task(workers: int, size: int) -> None:
        if workers == 2:
            raise ValueError("no two")

    study = quiet(task, workers=[1, 2, 3], sizes=[1], repeats=2)
    failures = {cell.setting.workers: cell.failure for cell in study.cells}
    assert failures == {1: None, 2: "ValueError: no two", 3: None}
    assert [len(cell.repeats) for cell in study.cells] == [2, 0, 2]
    assert "1 failed" in repr(study)
    assert 'raise ValueError("no two")' in study.report().html().replace("&quot;", '"')
    nothing = quiet(task, workers=[2], sizes=[1], repeats=1)
    assert (nothing.laws, nothing.law, nothing.breakeven) == ([], None, {})
    assert "Failures" in nothing.report().markdown()


def test_a_run_goes_on_with_more_cells_and_tries_failures_again(tmp_path: Path) -> None:
    def calls() -> list[str]:
        return (tmp_path / "calls").read_text().splitlines()

    def task(workers: int, size: int) -> None:
        with open(tmp_path / "calls", "a") as file:
            file.write(f"{workers} {size}\n")
        if workers == 2 and not (tmp_path / "mended").exists():
            raise ValueError("not yet")

    run = tmp_path / "run"
    quiet(task, workers=[1, 2], sizes=[1], repeats=2, run=run)
    (tmp_path / "mended").touch()
    (tmp_path / "calls").unlink()
    study = quiet(task, workers=[1, 2, 3], sizes=[1], repeats=2, run=run)
    warm_up, *others = calls()
    assert warm_up == "3 1"
    assert sorted(others) == ["2 1", "2 1", "3 1", "3 1"]
    assert [cell.failure for cell in study.cells] == [None] * 3
    assert [len(cell.repeats) for cell in study.cells] == [2, 2, 2]


def test_cells_whose_workers_had_other_cores_are_measured_again(tmp_path: Path) -> None:
    task = functools.partial(tenfold.map, double, [1, 2])
    first = quiet(task, workers=[1], cpus=2, repeats=2, run=tmp_path / "run")
    assert [taken.cpus for cell in first.cells for taken in cell.repeats] == [2, 2]
    second = quiet(task, workers=[1], cpus=1, repeats=1, run=tmp_path / "run")
    assert [taken.cpus for cell in second.cells for taken in cell.repeats] == [1]


def test_a_caller_that_is_killed_goes_on(tmp_path: Path) -> None:
    text = f"""
        import pathlib, time
        import tenfold

        folder = pathlib.Path({str(tmp_path)!r})

        def task(workers, size):
            with open(folder / "calls", "a") as file:
                file.write("x")
            time.sleep(0.05)

        study = tenfold.measure(task, workers=[1, 2, 3, 4], sizes=[1, 2], repeats=2, run=str(folder / "run"))
        import json
        print(json.dumps([len(cell.repeats) for cell in study.cells]))
    """
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: (tmp_path / "calls").exists() and (tmp_path / "calls").stat().st_size > 5)
        script.kill()
        script.end(15)
    before = (tmp_path / "calls").stat().st_size
    ended = scripts.run(tmp_path, text)
    assert json.loads(ended.out.splitlines()[-1]) == [2] * 8
    # 16 to measure, a warm-up each time, and the one that was killed
    assert (tmp_path / "calls").stat().st_size <= 16 + 2 + 1
    assert before > 5


def test_a_budget_ends_it_and_goes_into_repeats() -> None:
    study = quiet(sleeps, workers=[1], sizes=[1], repeats=1, budget=0.5)
    assert 2 <= len(study.cells[0].repeats) <= 5
    late = quiet(lambda workers, size: time.sleep(0.3), workers=[1, 2, 3], sizes=[1], repeats=3, budget=0.1)
    assert sum(len(cell.repeats) for cell in late.cells) <= 1
    assert "3 settings were not measured in the 0.1 seconds of the budget" in str(late)


def test_repeats_end_when_the_time_is_known() -> None:
    calm, wild = (
        Cell(Setting(1), tuple(Taken(seconds, 1, {}, 0, 1) for seconds in some))
        for some in ((1.0, 1.02, 0.99), (1.0, 1.2, 0.8))
    )
    assert calm.doubt < 0.05 < wild.doubt
    assert Cell(Setting(1), calm.repeats * 9).doubt < calm.doubt
    assert Cell(Setting(1), calm.repeats[:1]).doubt == math.inf


@pytest.mark.parametrize(
    ("task", "options", "fault"),
    [
        (3, {}, "task=3: expected a tenfold.Fit"),
        (lambda x: x, {}, "expected a tenfold.Fit, a functools.partial"),
        (sleeps, {"workers": []}, r"workers=\[\]: expected a list of whole numbers"),
        (sleeps, {"workers": [0]}, "workers: 0 is not a whole number above 0"),
        (sleeps, {"workers": [1, 1]}, "one is there twice"),
        (sleeps, {"sizes": 5}, "sizes=5: expected a list"),
        (sleeps, {"hows": ["fast"]}, "there is one way to do it"),
        (sleeps, {"engines": "local"}, "engines='local': expected a list"),
        (sleeps, {"engines": ["nowhere"]}, "nowhere"),
        (sleeps, {"repeats": 0}, "repeats=0"),
        (sleeps, {"budget": -1}, "budget=-1"),
        (functools.partial(tenfold.map, double, [1, 2]), {"sizes": [3]}, "sizes: 3 is more than the 2 that there are"),
        (functools.partial(tenfold.map, double, [1, 2], workers=2), {}, "workers= in the partial"),
        (functools.partial(tenfold.map, double, [1, 2], run="r"), {}, "run= in the partial: a call that is made again"),
        (functools.partial(tenfold.tune, double), {}, "a partial of tune cannot be measured"),
        (functools.partial(tenfold.map, double), {}, "the partial lacks items="),
        (functools.partial(tenfold.prepare, double), {}, "the partial lacks source="),
        (
            functools.partial(tenfold.prepare, double, iter([1, 2])),
            {},
            "source=list_iterator: a stream; expected",
        ),
    ],
)
def test_bad_calls(task: Any, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadCall, match=fault):
        quiet(task, **{"workers": [1], **options})


def test_it_is_kept_as_a_page_and_as_a_table(tmp_path: Path) -> None:
    study = quiet(sleeps, workers=[1, 2], sizes=[1, 2], repeats=1, run=tmp_path / "run")
    page = study.save(tmp_path / "scaling.html").read_text()
    assert "How sleeps scales" in page
    assert json.loads(study.save(tmp_path / "scaling.json").read_text())["title"] == "How sleeps scales"
    frame = study.frame()
    assert list(frame["workers"]) == [1, 2, 1, 2]
    assert {"seconds", "throughput", "compute", "communication", "memory"} <= set(frame.columns)
    with pytest.raises(BadCall, match="step: there is a step-time model where one model was trained"):
        study.step
    assert study.project(8)[8].throughput > 0
    assert "items/s" in str(study.project(8))
    with pytest.raises(BadCall, match="network: no model was trained here"):
        study.project(8, network="25Gbit")
    assert "tenfold.measure(task, workers=[1, 2], sizes=[1, 2], repeats=1, run=" in study.report().markdown()
