"""What a journal keeps, and how it is read again."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.errors import RunUnusable
from tenfold.journal import fingerprint, store
from tenfold.journal.folder import Folder
from tenfold.journal.kept import Shelf
from tenfold.journal.store import Block, Journal
from tenfold.work import parcel
from tenfold.work.outcome import Failure, Report
from tenfold.work.run import raised

LARGE = np.arange(100_000, dtype=np.float64)


def block(first: int, count: int = 1, **changes: Any) -> Block:
    items = changes.pop("items", [{"n": n} for n in range(first, first + count)])
    fields = {"peak": 1000, "seat": 1, "worker": "host:9", "attempts": 1, "digests": b""} | changes
    return Block(first=first, seconds=[0.5 + n for n in range(count)], items=items, **fields)


def bodies(values: Sequence[Any]) -> list[bytes]:
    return [parcel.pack(value).body for value in values]


def folder(path: Path) -> Folder:
    found = Folder(path / "run")
    found.prepare()
    return found


@pytest.fixture(params=["in a folder", "in temporary storage", "on a shelf"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    where = folder(tmp_path) if request.param == "in a folder" else None
    found = Journal(where, beside=Shelf() if request.param == "on a shelf" else None)
    yield found
    found.close()


def test_less_of_a_value_may_be_kept(journal: Journal) -> None:
    journal.add_values(block(0, 3), bodies(["a", "b" * 99, "c"]))
    journal.add_large(block(3), memoryview(parcel.pack([LARGE, LARGE]).to_bytes()))
    before = journal.block(0)
    journal.replace(0, ["a", "b", "c"])
    journal.replace(3, [[LARGE]])
    journal.commit()
    after = journal.block(0)
    assert [one.value for one in after] == ["a", "b", "c"]
    assert [(o.started, o.seconds, o.item) for o in after] == [(o.started, o.seconds, o.item) for o in before]
    (only,) = journal.outcome(3).value
    np.testing.assert_array_equal(only, LARGE)


# -- values -----------------------------------------------------------------------------------------------------------


def test_small_values(journal: Journal) -> None:
    values = [1, "two", [3.0, None], {"four": (4,)}]
    journal.add_values(block(10, 4), bodies(values))
    journal.commit()
    found = journal.block(12)
    assert [outcome.value for outcome in found] == values
    assert [outcome.index for outcome in found] == [10, 11, 12, 13]
    assert [outcome.seconds for outcome in found] == [0.5, 1.5, 2.5, 3.5]
    assert [outcome.item for outcome in found] == [{"n": n} for n in range(10, 14)]
    assert all(outcome.ok and outcome.failure is None and outcome.error is None for outcome in found)
    assert {(o.peak, o.seat, o.worker, o.attempts) for o in found} == {(1000, 1, "host:9", 1)}


def test_tasks_of_a_block_start_one_after_the_other(journal: Journal) -> None:
    journal.add_values(block(0, 3), bodies([1, 2, 3]))
    found = journal.block(0)
    starts = [outcome.started for outcome in found]
    assert starts[1] - starts[0] == pytest.approx(0.5, abs=1e-5)
    assert starts[2] - starts[1] == pytest.approx(1.5, abs=1e-5)


@pytest.mark.parametrize("value", [LARGE, {"weights": [LARGE, LARGE + 1]}, np.zeros(9000), b"x" * 200_000])
def test_large_values(journal: Journal, value: Any) -> None:
    journal.add_large(block(3), parcel.pack(value).to_bytes())
    journal.commit()
    (found,) = journal.block(3)
    np.testing.assert_equal(found.value, value)


def test_a_large_value_can_be_changed_without_changing_the_journal(journal: Journal) -> None:
    journal.add_large(block(3), parcel.pack(LARGE).to_bytes())
    journal.block(3)[0].value[:] = 0
    assert journal.block(3)[0].value[5] == 5


def test_large_values_are_files_of_a_run(tmp_path: Path) -> None:
    place = folder(tmp_path)
    journal = Journal(place)
    handle = parcel.shared(parcel.pack(LARGE))
    journal.add_large(block(3), parcel.attach(handle))
    os.close(handle)
    journal.commit()
    assert [path.name for path in place.values.iterdir()] == ["000003.parcel"]
    value = journal.block(3)[0].value
    journal.close()
    assert value.sum() == LARGE.sum()  # still mapped
    assert place.journal.stat().st_size < 100_000


def test_large_values_in_memory_stay_where_they_are() -> None:
    journal = Journal(None)
    handle = parcel.shared(parcel.pack(LARGE))
    memory = parcel.attach(handle)
    os.close(handle)
    journal.add_large(block(0), memory)
    assert np.shares_memory(journal.block(0)[0].value, np.frombuffer(memory, np.uint8))
    journal.close()


# -- failures, attempts, reports --------------------------------------------------------------------------------------


def failure(kind: str = "raised") -> Failure:
    if kind == "raised":
        return raised(ValueError("no such file: \N{SNOWMAN}"))
    return Failure(kind, "why it failed", "Traceback", None, "last words \ufffd")


@pytest.mark.parametrize("kind", ["raised", "timeout", "memory", "died", "unsendable"])
def test_failures(journal: Journal, kind: str) -> None:
    journal.add_failure(block(5, attempts=3), failure(kind))
    journal.commit()
    (found,) = journal.block(5)
    assert not found.ok
    assert found.value is None
    assert found.failure == failure(kind)
    assert found.attempts == 3
    assert found.error.index == 5
    if kind == "raised":
        assert isinstance(found.error.__cause__, ValueError)


def test_attempts(journal: Journal) -> None:
    journal.add_attempt(block(5, attempts=2), failure("raised"))
    journal.add_attempt(block(5, attempts=1), failure("timeout"))  # of a later session, which counts from 1 again
    journal.add_attempt(block(6, attempts=1), failure("died"))
    journal.commit()
    assert journal.attempts(5) == [failure("raised"), failure("timeout")]
    assert journal.attempts(7) == []


def test_reports(journal: Journal) -> None:
    reports = [
        Report(2, 1, 0, {"loss": 0.5, "accuracy": 0.25}, 1e9),
        Report(1, 1, 0, {"loss": float("inf")}, 1e9 + 1),
        Report(2, 1, 1, {"loss": 0.25}, 1e9 + 2),
    ]
    journal.add_reports(reports)
    journal.commit()
    assert list(journal.reports()) == reports
    assert list(journal.reports(2)) == [reports[0], reports[2]]
    assert list(journal.reports(9)) == []


def test_a_loss_that_is_not_a_number(journal: Journal) -> None:
    journal.add_reports([Report(0, 1, 0, {"loss": float("nan")}, 1e9)])
    (found,) = journal.reports()
    assert np.isnan(found.values["loss"])


# -- order, counts, what is there -------------------------------------------------------------------------------------


def test_outcomes_come_in_the_order_of_the_items(journal: Journal) -> None:
    journal.add_values(block(100, 3), bodies([100, 101, 102]))
    journal.add_failure(block(2), failure())
    journal.add_values(block(0, 2), bodies([0, 1]))
    journal.add_large(block(3), parcel.pack(LARGE).to_bytes())
    journal.commit()
    assert [outcome.index for outcome in journal.outcomes()] == [0, 1, 2, 3, 100, 101, 102]
    assert [outcome.index for outcome in journal.outcomes(ok=False)] == [2]
    assert journal.counts() == (6, 1)
    assert journal.finished() == [(0, 2), (3, 1), (100, 3)]


def test_many_blocks_are_read_a_few_at_a_time(journal: Journal) -> None:
    for first in range(0, 300, 2):
        journal.add_values(block(first, 2), bodies([first, first + 1]))
    reader = journal.outcomes()
    assert next(reader).value == 0
    journal.add_values(block(1000), bodies([1000]))  # nobody is kept from writing meanwhile
    assert [outcome.value for outcome in reader] == [*range(1, 300), 1000]


def test_an_empty_journal(journal: Journal) -> None:
    assert list(journal.outcomes()) == []
    assert journal.counts() == (0, 0)
    assert journal.finished() == []


@pytest.mark.parametrize("index", [0, 4, 8, 99])
def test_a_task_without_an_outcome(journal: Journal, index: int) -> None:
    journal.add_values(block(5, 3), bodies([5, 6, 7]))
    with pytest.raises(LookupError):
        journal.block(index)
    with pytest.raises(LookupError):
        journal.item(index)


def test_items(journal: Journal) -> None:
    journal.add_values(block(5, 2, items=["five", "six"]), bodies([5, 6]))
    assert [journal.item(5), journal.item(6)] == ["five", "six"]


class Odd:
    """An item whose `nbytes` is no number, as a DataFrame with such a column."""

    nbytes = "plenty"


@pytest.mark.parametrize(
    "item", [np.zeros(100_000), "x" * 100_000, (n for n in range(3)), Odd()], ids=["array", "text", "generator", "odd"]
)
def test_items_that_are_not_kept(journal: Journal, item: Any) -> None:
    """Too large, or impossible to pickle: the outcome is kept without it."""
    journal.add_values(block(5, items=[item]), bodies([5]))
    (found,) = journal.block(5)
    assert found.value == 5
    assert found.item is None or isinstance(item, Odd)


def test_digests(journal: Journal) -> None:
    digests = [fingerprint.of_value(item) for item in ("five", "six")]
    journal.add_values(block(5, 2, digests=b"".join(digests)), bodies([5, 6]))
    journal.add_values(block(20), bodies([20]))
    assert [journal.digest(5), journal.digest(6)] == digests
    assert journal.digest(0) == journal.digest(9) == journal.digest(20) == b""


# -- the last outcome of a task counts --------------------------------------------------------------------------------


def test_tasks_that_failed_and_later_succeeded_together(journal: Journal) -> None:
    """The next session sends what failed again, and in other batches than before."""
    for index in range(5):
        journal.add_failure(block(index), failure())
    journal.commit()
    journal.add_values(block(0, 5), bodies([0, 1, 2, 3, 4]))
    journal.commit()
    assert journal.counts() == (5, 0)
    assert [(outcome.index, outcome.value) for outcome in journal.outcomes()] == [(n, n) for n in range(5)]
    assert [journal.block(n)[n - journal.block(n)[0].index].value for n in range(5)] == [0, 1, 2, 3, 4]
    assert list(journal.outcomes(ok=False)) == []


def test_a_task_that_failed_in_the_middle_and_succeeded_later(journal: Journal) -> None:
    journal.add_values(block(0, 2), bodies([0, 1]))
    journal.add_failure(block(2), failure())
    journal.add_values(block(3, 2), bodies([3, 4]))
    journal.add_values(block(2), bodies([2]))
    assert journal.counts() == (5, 0)
    assert [outcome.value for outcome in journal.outcomes()] == [0, 1, 2, 3, 4]


@given(st.integers(1, 12), st.data())
def test_sessions_that_fail_here_and_there(count: int, data: st.DataObject) -> None:
    """Several sessions, each of which sends what is not finished, in batches of any length."""
    done: dict[int, int] = {}
    journal = Journal(None)
    try:
        for session in range(3):
            index = 0
            while index < count:
                if index in done:
                    index += 1
                    continue
                length = data.draw(st.integers(1, 4))
                run = []
                while index < count and index not in done and len(run) < length:
                    run.append(index)
                    index += 1
                if data.draw(st.booleans()):
                    journal.add_values(block(run[0], len(run)), bodies([session * 100 + n for n in run]))
                    done |= {n: session * 100 + n for n in run}
                else:
                    for n in run:
                        journal.add_failure(block(n), Failure("raised", "no"))
            found = {outcome.index: outcome.value for outcome in journal.outcomes() if outcome.ok}
            assert found == done
            assert journal.counts() == (len(done), count - len(done))
    finally:
        journal.close()


# -- meta, sessions ---------------------------------------------------------------------------------------------------


def test_what_the_run_is(journal: Journal) -> None:
    assert journal.meta("verb") is None
    journal.set_meta(verb="map", function="train")
    journal.set_meta(function="train_2")
    assert (journal.meta("verb"), journal.meta("function")) == ("map", "train_2")
    assert journal.meta("format") == str(store.FORMAT)


def test_sessions(journal: Journal) -> None:
    journal.begin_session({"engine": "local", "workers": 4})
    assert journal.sessions()[0]["ended"] is None
    journal.end_session()
    journal.begin_session({"engine": "serial"})
    first, second = journal.sessions()
    assert (first["engine"], first["workers"], first["pid"]) == ("local", 4, os.getpid())
    assert first["began"] <= first["ended"]
    assert (second["engine"], second["ended"]) == ("serial", None)


def test_the_clock_of_commits(journal: Journal) -> None:
    journal.commit()
    assert 0 <= journal.seconds_since_commit() < 5


# -- opened again -----------------------------------------------------------------------------------------------------


def fill(journal: Journal) -> None:
    journal.set_meta(function="train")
    journal.begin_session({"workers": 2})
    journal.add_values(block(0, 3), bodies([0, 1, 2]))
    journal.add_large(block(3), parcel.pack(LARGE).to_bytes())
    journal.add_failure(block(4), failure())
    journal.add_attempt(block(4), failure())
    journal.add_reports([Report(0, 1, 0, {"loss": 0.5}, 1e9)])
    journal.end_session()
    journal.commit()


def everything(journal: Journal) -> list[Any]:
    outcomes = [
        (o.index, o.ok, o.value if o.index != 3 else float(o.value.sum()), o.failure, o.seconds, o.item)
        for o in journal.outcomes()
    ]
    return [outcomes, list(journal.reports()), journal.attempts(4), journal.counts(), journal.meta("function")]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_opened_again(tmp_path: Path, read_only: bool) -> None:
    place = folder(tmp_path)
    journal = Journal(place)
    fill(journal)
    expected = everything(journal)
    journal.close()
    again = Journal(Folder(place.path), read_only=read_only)
    assert everything(again) == expected
    again.close()


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    place = folder(tmp_path)
    journal = Journal(place)
    journal.add_values(block(0), bodies([0]))
    journal.commit()
    journal.add_values(block(1), bodies([1]))
    journal.close()
    again = Journal(place, read_only=True)
    assert again.counts() == (1, 0)
    again.close()


def test_a_journal_is_read_while_it_is_written(tmp_path: Path) -> None:
    place = folder(tmp_path)
    writer = Journal(place)
    reader = Journal(place, read_only=True)
    for first in range(3):
        writer.add_values(block(first), bodies([first]))
        writer.commit()
        assert reader.counts() == (first + 1, 0)
    reader.close()
    writer.close()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    place = folder(tmp_path)
    journal = Journal(place)
    fill(journal)
    journal.close()
    before = {path: path.read_bytes() for path in place.path.rglob("*") if path.is_file()}
    again = Journal(place, read_only=True)
    everything(again)
    again.close()
    after = {path: path.read_bytes() for path in place.path.rglob("*") if path.is_file()}
    assert after == before


def test_reading_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunUnusable, match="holds no run"):
        Journal(Folder(tmp_path), read_only=True)
    assert list(tmp_path.iterdir()) == []


def change_format(place: Folder, text: str) -> None:
    db = sqlite3.connect(place.journal)
    db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (text,))
    db.execute("DROP TABLE reports")
    db.commit()
    db.close()


def schema(place: Folder) -> list[Any]:
    db = sqlite3.connect(place.journal)
    found = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    return found


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, read_only: bool) -> None:
    place = folder(tmp_path)
    Journal(place).close()
    change_format(place, str(store.FORMAT + 1))
    before = schema(place)
    with pytest.raises(RunUnusable, match=rf"newer tenfold \(format {store.FORMAT + 1}\)"):
        Journal(place, read_only=read_only)
    assert schema(place) == before


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    old_mask = os.umask(0o000)
    try:
        place = folder(tmp_path)
        journal = Journal(place)
        fill(journal)
        modes = {path.name: path.stat().st_mode & 0o777 for path in place.path.iterdir()}
        assert place.path.stat().st_mode & 0o777 == 0o700
        assert modes["values"] == 0o700
        assert {modes[name] for name in modes if name.startswith("journal.sqlite")} == {0o600}
        journal.close()
    finally:
        os.umask(old_mask)


def test_about_is_json_with_any_text(journal: Journal) -> None:
    journal.begin_session({"plan": "2 at a time: \N{SNOWMAN}"})
    assert journal.sessions()[0]["plan"].endswith("\N{SNOWMAN}")
    assert json.dumps(journal.sessions())
