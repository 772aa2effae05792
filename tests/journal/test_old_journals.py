"""Journals of every format ever written open for ever. The files in tests/data were made once and never change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal
from tenfold.work.outcome import Failure, Report

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(params=["read", "continued"])
def version_1(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    place = tmp_path / "run"
    shutil.copytree(DATA / "journal-v1", place)  # opening a database makes files beside it
    assert is_run(place)
    folder = Folder(place)
    if request.param == "continued":
        folder.prepare()
    journal = Journal(folder, read_only=request.param == "read")
    yield journal
    journal.close()


def test_version_1_what_it_is(version_1: Journal) -> None:
    assert version_1.meta("format") == "1"
    assert version_1.meta("verb") == "map"
    assert version_1.meta("function") == "train"
    assert version_1.meta("count") == "8"
    assert version_1.meta("fingerprint") == '{"the code of train": "00ff"}'
    (session,) = version_1.sessions()
    assert (session["engine"], session["workers"], session["plan"]) == ("LocalEngine", 2, "2 at a time")
    assert session["began"] <= session["ended"]


def test_version_1_outcomes(version_1: Journal) -> None:
    found = list(version_1.outcomes())
    assert [outcome.index for outcome in found] == list(range(8))
    assert [outcome.ok for outcome in found] == [True, True, True, True, True, False, False, True]
    assert [outcome.seconds for outcome in found] == [0.25 * (n + 1) for n in range(8)]
    assert [outcome.item for outcome in found] == [{"lr": 0.5**n, "seed": n} for n in range(8)]
    assert {(outcome.peak, outcome.seat, outcome.worker) for outcome in found} == {(123_456_789, 1, "host:4321")}
    assert [outcome.attempts for outcome in found] == [1, 1, 1, 1, 1, 2, 1, 1]
    assert version_1.counts() == (6, 2)
    assert version_1.finished() == [(0, 3), (3, 1), (4, 1), (7, 1)]
    assert [version_1.digest(n) for n in (0, 2, 7)] == [n.to_bytes(8, "big") for n in (0, 2, 7)]
    assert version_1.item(2) == {"lr": 0.25, "seed": 2}


def test_version_1_values(version_1: Journal) -> None:
    values = [outcome.value for outcome in version_1.outcomes()]
    assert values[:3] == [
        {"loss": 0.5, "name": "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve"},
        [1, 2.5, None, True],
        (3, b"\0\xff"),
    ]
    assert np.array_equal(values[3]["weights"], np.arange(10_000, dtype=np.float64).reshape(100, 100))
    assert values[3]["bias"].dtype == np.float32
    assert values[3]["bias"].tolist() == [1, 1, 1]
    assert np.array_equal(values[4], np.arange(100, dtype=np.int16))
    assert values[4].dtype == np.int16
    assert values[5:] == [None, None, "last"]


def test_version_1_failures(version_1: Journal) -> None:
    raised, died = version_1.outcomes(ok=False)
    assert raised.failure.kind == "raised"
    assert raised.failure.summary == "ValueError: ('learning rate too high', 7)"
    assert "make_journal_v1.py" in raised.failure.traceback
    assert isinstance(raised.error.__cause__, ValueError)
    assert raised.error.__cause__.args == ("learning rate too high", 7)
    assert died.failure == Failure("died", "its process was killed by SIGKILL", "", None, "out of memory\n")
    timeout, again = version_1.attempts(5)
    assert timeout == Failure("timeout", "it ran longer than timeout=5 s and was stopped")
    assert again == raised.failure


def test_version_1_reports(version_1: Journal) -> None:
    expected = [
        Report(0, 1, 0, {"loss": 0.75}, 1.75e9),
        Report(5, 2, 0, {"loss": float("inf"), "accuracy": 0.125}, 1.75e9 + 0.5),
        Report(0, 1, 1, {"loss": 0.5}, 1.75e9 + 1),
    ]
    assert list(version_1.reports()) == expected
    assert list(version_1.reports(0)) == [expected[0], expected[2]]
