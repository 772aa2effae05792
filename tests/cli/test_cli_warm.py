"""`tenfold warm`: a nursery that is there for the next calls, and then is not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import calls
import pytest
from calls import Run

import waiting


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose name is short enough for a socket; no nursery is left in it."""
    folder = tmp_path_factory.mktemp("warm")
    folder.chmod(0o700)
    yield folder
    calls.tenfold(folder, "warm", "--stop")


def test_from_start_to_stop(place: Path) -> None:
    assert calls.tenfold(place, "warm", "--status", "--json").json == {"waiting": False}
    started = calls.tenfold(place, "warm", "numpy", "--minutes", "1", "--json").json
    pid = started["pid"]
    assert (started["waiting"], started["started"], started["minutes"]) == (True, True, 1)
    assert "numpy" in started["imported"]
    assert started["failed"] == {}
    again = calls.tenfold(place, "warm", "numpy", "--json").json
    assert (again["pid"], again["started"], again["minutes"]) == (pid, False, None)
    status = calls.tenfold(place, "warm", "--status").out
    assert f"nursery {pid} is waiting\n" in status
    assert "numpy" in status
    (place / "f.py").write_text("import os\ndef f(item):\n    return os.getppid()\n")
    assert calls.tenfold(place, "map", "f.py:f", "--n", "1", "--json").json["values"] == [pid]
    assert calls.tenfold(place, "warm", "--stop").out == "ended 1 waiting nursery\n"
    waiting.for_exit(pid)
    assert calls.tenfold(place, "warm", "--stop", "--json").json == {"stopped": 0}
    assert calls.tenfold(place, "warm", "--stop").out == "none was waiting\n"
    assert "no nursery is waiting" in calls.tenfold(place, "warm", "--status").out


def test_what_is_said(place: Path) -> None:
    ended = calls.tenfold(place, "warm", "numpy", "--minutes", "0.5")
    assert ended.status == 0, ended.err
    assert "0.5 minutes after each use" in ended.out
    assert "tenfold warm --stop ends it now" in ended.out
    assert ended.err == ""
    assert "was waiting already" in calls.tenfold(place, "warm", "numpy").out


def test_an_import_that_fails_is_told(place: Path) -> None:
    broken = place / "broken"
    broken.mkdir()
    (broken / "sklearn").mkdir()
    (broken / "sklearn" / "__init__.py").write_text("raise ImportError('libgomp is missing')\n")
    variables = {"PYTHONPATH": str(broken)}
    ended = calls.tenfold(place, "warm", "sklearn", variables=variables)
    assert ended.status == 1
    assert "sklearn could not be imported: ImportError: libgomp is missing" in ended.err
    found = calls.tenfold(place, "warm", "sklearn", "--json", variables=variables).json
    assert found["failed"]["sklearn"] == "ImportError: libgomp is missing"


def test_one_that_does_not_answer(place: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    pid = calls.tenfold(place, "warm", "numpy", "--json").json["pid"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setattr("tenfold.nursery.warming.ANSWER_LIMIT", 0.1)
    os.kill(pid, signal.SIGSTOP)
    try:
        result = run("warm", "--status")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert result.exit_code == 1
    assert "it is still importing" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("magic",), "'magic' is not one of "),
        (("numpy", "--stop"), "expected names of frameworks, --stop or --status: one of them"),
        (("--status", "--stop"), "expected names of frameworks, --stop or --status: one of them"),
        (("--minutes", "0"), "Invalid value for '--minutes'"),
    ],
)
def test_bad_calls(run: Run, words: tuple[str, ...], told: str) -> None:
    result = run("warm", *words)
    assert result.exit_code == 2
    assert told in result.stderr
