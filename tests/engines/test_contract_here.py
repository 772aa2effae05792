"""The contract of every engine: what a task is told about itself, and what it tells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

import tenfold
from tenfold import errors


def test_index_attempt_cpus_and_device(engine: str) -> None:
    def look(item: str) -> tuple[Any, ...]:
        here = tenfold.here()
        return item, here.index, here.attempt, here.cpus, here.device, here.gpus

    results = tenfold.map(look, ["a", "b", "c"], engine=engine)
    assert results[:] == [(item, n, 1, 1, "cpu", ()) for n, item in enumerate("abc")]


def test_cpus_is_what_was_asked_for(engine: str) -> None:
    assert tenfold.map(lambda _: tenfold.here().cpus, [0], engine=engine, cpus=2)[:] == [2]
    assert tenfold.map(lambda _: tenfold.here().cpus, [0], engine=engine, cpus=0.5)[:] == [0.5]


def test_xp_is_numpy_without_a_gpu(engine: str) -> None:
    assert tenfold.map(lambda _: tenfold.here().xp.__name__, [0], engine=engine)[:] == ["numpy"]


def test_a_thread_that_a_task_starts_has_the_same_here(engine: str) -> None:
    def ask_in_a_thread(item: int) -> tuple[int, int]:
        import contextvars
        import threading

        found: list[int] = []
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(lambda: found.append(tenfold.here().index)))
        thread.start()
        thread.join()
        return found[0], tenfold.here().index

    assert tenfold.map(ask_in_a_thread, range(3), engine=engine)[:] == [(0, 0), (1, 1), (2, 2)]


def test_the_folder_goes_with_the_call(engine: str) -> None:
    def write(item: int) -> str:
        path = tenfold.here().folder / "checkpoint"
        path.write_text(str(item))
        return str(path)

    paths = [Path(path) for path in tenfold.map(write, range(3), engine=engine)]
    assert len({path.parent for path in paths}) == 3
    for path in paths:
        assert path.is_relative_to(tempfile.gettempdir())
        assert not path.exists()
        assert not path.parent.parent.exists()


def test_the_folder_stays_with_the_run(engine: str, tmp_path: Path) -> None:
    def write(item: int) -> str:
        path = tenfold.here().folder / "checkpoint"
        path.write_text(str(item))
        return str(path)

    paths = [Path(path) for path in tenfold.map(write, range(3), engine=engine, run=tmp_path / "run")]
    assert [path.read_text() for path in paths] == ["0", "1", "2"]
    assert all(path.is_relative_to(tmp_path / "run" / "tasks") for path in paths)


@pytest.mark.parametrize("keep", [False, True], ids=["no run", "run"])
def test_a_second_attempt_finds_what_the_first_one_left(engine: str, keep: bool, tmp_path: Path) -> None:
    def leave(item: int) -> str:
        path = tenfold.here().folder / "checkpoint"
        if not path.exists():
            path.write_text("epoch 3")
            raise RuntimeError("the power went out")
        return path.read_text()

    run = tmp_path / "run" if keep else None
    assert tenfold.map(leave, [0, 1], engine=engine, retries=1, run=run)[:] == ["epoch 3", "epoch 3"]


def test_the_folder_goes_also_when_tasks_fail(engine: str) -> None:
    def fail(item: int) -> None:
        raise RuntimeError(str(tenfold.here().folder))

    error = tenfold.map(fail, [0], engine=engine, on_error="collect")[0]
    assert not Path(error.__cause__.args[0]).exists()


def test_reports_arrive_in_order_with_their_task(engine: str) -> None:
    def train(item: int) -> int:
        import numpy

        here = tenfold.here()
        for step in range(4):
            here.report(step, loss=item + 1 / (step + 1), accuracy=numpy.float32(0.5))
        return item

    results = tenfold.map(train, range(3), engine=engine)
    for index in range(3):
        reports = list(results.reports(index))
        assert [report.step for report in reports] == [0, 1, 2, 3]
        assert [report.values["loss"] for report in reports] == [index + 1 / (step + 1) for step in range(4)]
        assert {report.values["accuracy"] for report in reports} == {0.5}
        assert {(report.index, report.attempt) for report in reports} == {(index, 1)}
        assert [report.at for report in reports] == sorted(report.at for report in reports)
    assert len(list(results.reports())) == 12


def test_reports_of_failed_attempts_are_kept(engine: str) -> None:
    def train(item: int) -> None:
        here = tenfold.here()
        here.report(here.attempt * 10, loss=0.5)
        if here.attempt == 1:
            raise ValueError("diverged")

    results = tenfold.map(train, [0], engine=engine, retries=1)
    assert [(report.attempt, report.step) for report in results.reports()] == [(1, 10), (2, 20)]


def test_a_report_that_makes_no_sense_fails_its_task(engine: str) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((1.5,), {"loss": 1}, "whole number"),
        ((True,), {"loss": 1}, "whole number"),
        ((1,), {}, "at least one value"),
        ((1,), {"loss": "low"}, "expected a number"),
    ]
    found = tenfold.map(lambda one: tenfold.here().report(*one[0], **one[1]), calls, engine=engine, on_error="collect")
    for error, (*_, text) in zip(found, calls, strict=True):
        assert isinstance(error.__cause__, errors.BadCall)
        assert text in str(error)


@pytest.mark.parametrize("inner", ["serial", "local", None])
def test_a_task_may_call_map_itself(engine: str, inner: str | None) -> None:
    def outer(x: int) -> tuple[int, list[int], int]:
        before = tenfold.here().index
        squares = tenfold.map(lambda y: (tenfold.here().index, x * y), range(3), engine=inner)[:]
        assert [index for index, _ in squares] == [0, 1, 2]
        return before, [value for _, value in squares], tenfold.here().index

    results = tenfold.map(outer, range(4), engine=engine)
    assert results[:] == [(x, [0, x, 2 * x], x) for x in range(4)]


def test_outside_a_task_here_is_the_machine() -> None:
    here = tenfold.here()
    assert (here.index, here.attempt, here.device) == (0, 1, "cpu")
    assert here.cpus >= 1
    here.report(1, loss=0.5)  # nobody listens, and nothing breaks
