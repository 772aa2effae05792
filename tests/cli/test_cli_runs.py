"""`tenfold runs` and `tenfold show`: whole, broken, strange and foreign runs."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from calls import Run

import tenfold
from tenfold.journal import records


def shown(run: Run, *words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


# -- runs -------------------------------------------------------------------------------------------------------


def test_the_runs_below_a_folder(run: Run, kept: Path) -> None:
    result = run("runs")
    (row,) = [line.split() for line in result.stdout.splitlines() if "runs/one" in line]
    assert row[:2] == ["runs/one", "map"]
    assert row[-6:] == ["4", "3", "1", "just", "now", "finished"]
    (record,) = shown(run, "runs")["runs"]
    assert {name: record[name] for name in ("path", "tasks", "done", "failed", "state")} == {
        "path": "runs/one",
        "tasks": 4,
        "done": 3,
        "failed": 1,
        "state": "finished",
    }


def test_none_is_said_on_stderr(run: Run, tmp_path: Path) -> None:
    result = run("runs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs in '.'" in result.stderr
    assert shown(run, "runs") == {"folder": ".", "runs": []}


def test_where_it_looks(tmp_path: Path) -> None:
    seen = ["a", "b/c", "d/e/f/g/h"]
    unseen = [".hidden/x", ".venv/x", "node_modules/x", "d/e/f/g/i/j", "a/tasks/inner"]
    for name in seen + unseen:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "journal.sqlite").touch()
    (tmp_path / "circle").symlink_to(tmp_path)
    assert list(records.find(tmp_path)) == [tmp_path / name for name in seen]
    assert list(records.find(tmp_path / "a")) == [tmp_path / "a"]


def test_a_run_that_is_held_is_running(kept: Path) -> None:
    path = kept / "runs" / "one"
    before = (path / "lock").read_bytes()
    with open(path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert records.read(path).state == "running"
    assert records.read(path).state == "finished"
    assert (path / "lock").read_bytes() == before


def test_a_run_that_was_stopped_is_unfinished(run: Run, tmp_path: Path) -> None:
    def fail(item: int) -> None:
        raise ValueError

    with pytest.raises(tenfold.TasksFailed):
        tenfold.map(fail, iter(range(5)), run=tmp_path / "a", on_error="stop", engine="serial")
    (record,) = shown(run, "runs")["runs"]
    assert (record["state"], record["failed"]) == ("unfinished", 1)
    assert "unfinished: " in run("show", "a").stdout


@pytest.mark.parametrize("content", [b"", b"this is no database, but it is long enough to be one" * 50])
def test_a_broken_journal_is_one_row_and_one_error(run: Run, kept: Path, content: bytes) -> None:
    (kept / "broken").mkdir()
    (kept / "broken" / "journal.sqlite").write_bytes(content)
    found = {record["path"]: record["state"] for record in shown(run, "runs")["runs"]}
    assert found == {"broken": "unreadable", "runs/one": "finished"}
    assert "cannot be used" in run("runs").stderr
    result = run("show", "broken")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_a_journal_that_breaks_further_in(run: Run, kept: Path) -> None:
    with sqlite3.connect(kept / "runs" / "one" / "journal.sqlite") as database:
        database.execute("DROP TABLE sessions")
    database.close()
    (record,) = shown(run, "runs")["runs"]
    assert record["state"] == "unreadable"
    assert "no such table: sessions" in record["trouble"]
    assert run("show", "runs/one").exit_code == 2


def test_looking_changes_nothing(run: Run, kept: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in kept.rglob("*") if path.is_file()}

    before = state()
    run("runs")
    run("show", "runs/one")
    assert state() == before


# -- show -------------------------------------------------------------------------------------------------------


def test_a_run(run: Run, kept: Path) -> None:
    text = run("show", "runs/one").stdout
    assert "in runs/one" in text
    assert "finished: 4 tasks, 3 done, 1 failed" in text
    assert "{'square': 4}" in text
    assert "step 1, loss 2.5" in text
    assert "loss 12" not in text
    assert "ValueError: item 3, attempt 2, is bad" in text
    assert "Earlier attempt 1 of 1: ValueError: item 3, attempt 1, is bad" in text
    assert text.count("Traceback (most recent call last)") == 2
    assert "the same call with this run tries the failed tasks again" in text


def test_a_run_for_programs(run: Run, kept: Path) -> None:
    found = shown(run, "show", "runs/one")
    assert [task["value"] for task in found["values"]] == [{"square": 0}, {"square": 1}, {"square": 4}]
    assert found["values"][2]["reports"] == [{"step": 1, "loss": 2.5}]
    (failure,) = found["failures"]
    assert (failure["task"], failure["item"], failure["attempts"]) == (3, 3, 2)
    assert failure["failure"]["summary"] == "ValueError: item 3, attempt 2, is bad"
    assert [before["summary"] for before in failure["earlier_attempts"]] == ["ValueError: item 3, attempt 1, is bad"]
    (session,) = found["sessions"]
    assert session["workers"] == 1


def test_a_task(run: Run, kept: Path) -> None:
    text = run("show", "runs/one", "--task", "2").stdout
    assert text.startswith("task 2: done\n  item: 2\n  value: {'square': 4}\n")
    assert "    step 0, loss 12\n    step 1, loss 2.5\n" in text
    failed = run("show", "runs/one", "--task", "3").stdout
    assert "Earlier attempt 1 of 1" in failed
    found = shown(run, "show", "runs/one", "--task", "2")
    assert (found["status"], found["value"], len(found["reports"])) == ("done", {"square": 4}, 2)


def test_a_task_that_is_not_there(run: Run, kept: Path) -> None:
    result = run("show", "runs/one", "--task", "4")
    assert result.exit_code == 2
    assert "--task 4: the run in 'runs/one' has 4 tasks, counted from 0" in result.stderr


def test_a_task_that_was_not_run(run: Run, tmp_path: Path) -> None:
    def fail(item: int) -> None:
        raise ValueError

    with pytest.raises(tenfold.TasksFailed):
        tenfold.map(fail, range(50), run=tmp_path / "a", on_error="stop", engine="serial")
    assert run("show", "a", "--task", "49").stdout == "task 49: not run yet\n"
    assert "not run yet" in run("show", "a").stdout


def test_many_tasks_are_cut_and_all_shows_them(run: Run, tmp_path: Path) -> None:
    def odd(item: int) -> int:
        if item % 2:
            raise ValueError(f"odd {item}")
        return item

    tenfold.map(odd, range(40), run=tmp_path / "a", on_error="collect", engine="serial")
    text = run("show", "a").stdout
    assert "... 10 more (--all shows them)" in text
    assert "... 10 more failures (--all shows them)" in text
    assert (text.count("Traceback in"), run("show", "a", "--all").stdout.count("Traceback in")) == (10, 20)
    found = shown(run, "show", "a", "--all")
    assert [task["value"] for task in found["values"]] == list(range(0, 40, 2))


@pytest.mark.parametrize(("name", "told"), [("nix", "'nix' does not exist"), ("runs", "'runs' holds no run")])
def test_a_folder_without_a_run_lists_those_nearby(run: Run, kept: Path, name: str, told: str) -> None:
    result = run("show", name)
    assert result.exit_code == 2
    assert f"error: {told}; runs nearby: runs/one\n" == result.stderr


def test_a_folder_without_any_run(run: Run, tmp_path: Path) -> None:
    assert "there is none in or below '.'" in run("show", "nix").stderr


def test_large_values_are_told_by_their_shape(run: Run, tmp_path: Path) -> None:
    tenfold.map(lambda item: numpy.zeros((500, 500)), range(1), run=tmp_path / "a", engine="serial")
    assert shown(run, "show", "a")["values"][0]["value"] == {"shape": [500, 500], "dtype": "float64"}


def test_what_cannot_be_opened_here_hides_nothing_else(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("class Shape:\n    def __init__(self, n):\n        self.n = n\n")
    sys.path.insert(0, str(tmp_path))
    import shapes  # type: ignore[import-not-found]

    def draw(shape: Any) -> Any:
        if shape.n == 1:
            raise ValueError("no shape")
        return shape if shape.n else "drawn"

    items = [shapes.Shape(n) for n in range(3)]
    tenfold.map(draw, items, run=tmp_path / "a", on_error="collect", engine="serial")
    sys.path.remove(str(tmp_path))
    del sys.modules["shapes"]
    result = run("show", "a")
    assert result.exit_code == 0, result.stderr
    assert "cannot be opened here: ModuleNotFoundError: No module named 'shapes'" in result.stdout
    assert "task 1 failed: ValueError: no shape" in result.stdout
    assert 'raise ValueError("no shape")' in result.stdout
    assert "cannot be opened here" in run("show", "a", "--task", "2").stdout
    assert [task["task"] for task in shown(run, "show", "a")["failures"]] == [1]
