"""`tenfold.here()`, from inside a task and outside of any."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scripts
import tenfold
from tenfold.errors import BadCall
from tenfold.plan.seats import GpuShare, Seat
from tenfold.work import here, seeds
from tenfold.work.run import Job, Runner

SEAT = Seat(1, 2, (0, 1), (GpuShare("3", 0.5),), 1 << 30)


def task(tmp_path: Path, post: here.Post | None = None, **changes: Any) -> here.Here:
    fields: dict[str, Any] = {"index": 4, "attempt": 2, "run_seed": 9, "seat": SEAT, "folder": str(tmp_path)}
    return here.Here(**(fields | changes), post=post)


def test_what_a_task_was_given(tmp_path: Path) -> None:
    given = task(tmp_path)
    assert (given.index, given.attempt, given.cpus, given.gpus, given.device) == (4, 2, 2, ("3",), "cuda:0")
    assert given.seed == seeds.number(9, 4)
    assert "task 4, attempt 2" in repr(given)


def test_the_generator_of_a_task(tmp_path: Path) -> None:
    first, again = task(tmp_path), task(tmp_path, attempt=3)
    assert first.rng is first.rng
    expected = np.random.default_rng(np.random.SeedSequence(9).spawn(5)[4]).random(3)
    assert first.rng.random(3).tolist() == again.rng.random(3).tolist() == expected.tolist()


def test_numpy_where_there_is_no_gpu(tmp_path: Path) -> None:
    assert task(tmp_path, seat=Seat(0, 1, ())).xp is np


def test_the_folder_of_a_task(tmp_path: Path) -> None:
    given = task(tmp_path / "tasks")
    assert not (tmp_path / "tasks").exists()  # nothing is made before it is asked for
    assert given.folder == tmp_path / "tasks" / "000004"
    (given.folder / "checkpoint").write_text("epoch 3")
    assert (task(tmp_path / "tasks", attempt=3).folder / "checkpoint").read_text() == "epoch 3"
    assert given.folder.stat().st_mode & 0o077 == 0
    assert (tmp_path / "tasks").stat().st_mode & 0o077 == 0


def test_reports(tmp_path: Path) -> None:
    told: list[Any] = []
    given = task(tmp_path, lambda *report: told.append(report))
    given.report(np.int64(3), loss=np.float32(0.5), steps=7, done=True)
    ((index, attempt, step, values, at),) = told
    assert (index, attempt, step, values) == (4, 2, 3, {"loss": 0.5, "steps": 7.0, "done": 1.0})
    assert type(step) is int
    assert all(type(value) is float for value in values.values())
    assert at > 1.7e9


@pytest.mark.parametrize(
    ("step", "values", "named"),
    [
        (1.5, {"loss": 1}, "step=1.5"),
        ("3", {"loss": 1}, "step='3'"),
        (True, {"loss": 1}, "step=True"),
        (3, {}, "at least one value"),
        (3, {"loss": "low"}, "loss='low'"),
        (3, {"loss": None}, "loss=None"),
        (3, {"loss": 1j}, "loss=1j"),
        (3, {"loss": 10**400}, "loss=1000"),
    ],
)
def test_bad_reports(tmp_path: Path, step: Any, values: dict[str, Any], named: str) -> None:
    told: list[Any] = []
    with pytest.raises(BadCall) as caught:
        task(tmp_path, lambda *report: told.append(report)).report(step, **values)
    assert named in str(caught.value)
    assert told == []


# -- who is here ------------------------------------------------------------------------------------------------------


def test_outside_of_any_task() -> None:
    found = tenfold.here()
    assert (found.index, found.attempt) == (0, 1)
    assert found.cpus >= 1
    found.report(0, loss=1.0)  # a training function also works when it is called directly


def test_inside_a_task_and_after_it(tmp_path: Path) -> None:
    job = Job(9, str(tmp_path), True, ())
    with seeds.restored(), Runner(lambda item: tenfold.here(), job, SEAT, None, whole_process=False) as runner:
        ok, found, _ = runner.run(4, 2, None)
        assert ok
        assert (found.index, found.attempt, found.seed) == (4, 2, seeds.number(9, 4))
    assert tenfold.here().cpus != SEAT.cpus or tenfold.here().gpus == ()


@pytest.mark.parametrize("whole_process", [True, False])
def test_threads_of_a_task(tmp_path: Path, whole_process: bool) -> None:
    """In a worker the whole process is the task's; in the caller's process, other threads are not."""
    found: list[int] = []

    def run(item: object) -> None:
        thread = threading.Thread(target=lambda: found.append(tenfold.here().index))
        thread.start()
        thread.join()

    job = Job(9, str(tmp_path), True, ())
    with seeds.restored(), Runner(run, job, SEAT, None, whole_process=whole_process) as runner:
        assert runner.run(4, 1, None)[0]
    assert found == [4 if whole_process else 0]


def test_here_does_not_import_a_framework(tmp_path: Path) -> None:
    ended = scripts.run(
        tmp_path,
        """
        import sys, tenfold
        tenfold.here().device
        print([name for name in ("torch", "tensorflow", "jax", "keras", "sklearn") if name in sys.modules])
        """,
    )
    assert ended.out.strip() == "[]"
