"""`tenfold launch`: a function of a file, in several processes at once."""

from __future__ import annotations

from pathlib import Path

import calls
import pytest

FILE = """
import tenfold

def train(lr=1):
    here = tenfold.here()
    if lr > 5 and here.rank == 1:
        raise ValueError(f"{lr} is too much")
    return {"rank": here.rank, "of": here.workers, "lr": lr}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loop.py").write_text(FILE)
    return tmp_path


def test_values_are_in_the_order_of_ranks(folder: Path) -> None:
    ended = calls.tenfold(folder, "launch", "loop.py:train", "--workers", "2", "--set", "lr=3", "--json")
    assert ended.status == 0, ended.err
    assert ended.json["values"] == [{"rank": rank, "of": 2, "lr": 3} for rank in range(2)]


def test_a_failure_and_a_bad_call_have_their_statuses(folder: Path) -> None:
    failed = calls.tenfold(folder, "launch", "loop.py:train", "--workers", "2", "--set", "lr=9")
    assert failed.status == 1
    assert "task 1 failed: ValueError: 9 is too much" in failed.err
    refused = calls.tenfold(folder, "launch", "loop.py:train", "--workers", "2", "--group", "mpi")
    assert (refused.status, "groups=['mpi']" in refused.err) == (2, True)
