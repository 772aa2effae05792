"""`tenfold measure`: a task of a file over a grid, and a page about it."""

from __future__ import annotations

from pathlib import Path

import calls
import pytest

FILE = """
import functools, time
import tenfold

def work(workers, size):
    time.sleep(size / 1000 / workers)

naps = functools.partial(tenfold.map, time.sleep, [0.001] * 4)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text(FILE)
    return tmp_path


def test_a_grid_its_page_and_its_run(folder: Path) -> None:
    words = ("measure", "work.py:work", "--workers", "1,2", "--sizes", "5,20", "--repeats", "1", "--run", "runs/m")
    ended = calls.tenfold(folder, *words, "--report", "scaling.html")
    assert ended.status == 0, ended.err
    assert "2 workers, size 20" in ended.out
    assert "Fastest: 2 workers" in ended.out
    assert "written to scaling.html" in ended.out
    assert "How work scales" in (folder / "scaling.html").read_text()
    again = calls.tenfold(folder, *words, "--json").json
    assert [cell["workers"] for cell in again["cells"]] == [1, 2, 1, 2]
    assert again["advice"][0].startswith("Fastest: 2 workers")
    page = calls.tenfold(folder, "report", "runs/m", "--format", "md", "--to", "-")
    assert page.status == 0, page.err
    assert "How work scales" in page.out
    shown = calls.tenfold(folder, "show", "runs/m")
    assert "measure of work in runs/m" in shown.out
    (record,) = calls.tenfold(folder, "runs", "--json").json["runs"]
    assert (record["tasks"], record["done"], record["state"]) == (4, 4, "finished")


def test_a_partial_of_a_verb(folder: Path) -> None:
    words = ("measure", "work.py:naps", "--workers", "1", "--engines", "serial", "--repeats", "1", "--json")
    (cell,) = calls.tenfold(folder, *words).json["cells"]
    assert (cell["engine"], cell["failure"]) == ("serial", None)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--workers", "1,x"), "--workers 1,x: expected whole numbers"),
        (("--workers", "1", "--hows", "fast"), "there is one way to do it"),
        ((), "Missing option '--workers'"),
    ],
)
def test_bad_calls(folder: Path, words: tuple[str, ...], fault: str) -> None:
    ended = calls.tenfold(folder, "measure", "work.py:work", *words)
    assert ended.status == 2
    assert fault in ended.err
