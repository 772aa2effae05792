"""What became of a task, in words, and what an exit status means."""

from __future__ import annotations

import copyreg
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tblib import pickling_support

from tenfold import errors
from tenfold.work import exits, parcel
from tenfold.work.outcome import Failure, Outcome, describe, original, shorten
from tenfold.work.run import raised, unsendable


def outcome(failure: Failure | None, **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "index": 7,
        "ok": failure is None,
        "value": None,
        "failure": failure,
        "seconds": 1.23456,
        "started": 1e9,
        "peak": 0,
        "seat": 2,
        "worker": "host:123",
        "attempts": 1,
        "item": {"lr": 0.1},
    }
    return Outcome(**(fields | changes))


# -- describe ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("raised", errors.TaskRaised),
        ("timeout", errors.TaskTimedOut),
        ("memory", errors.TaskOutOfMemory),
        ("died", errors.TaskDied),
        ("unsendable", errors.TaskUnsendable),
    ],
)
def test_each_kind_has_its_error(kind: str, error: type[errors.TaskError]) -> None:
    found = outcome(Failure(kind, "why")).error
    assert type(found) is error
    assert (found.index, found.attempts) == (7, 1)
    assert found.failure == Failure(kind, "why")


def test_success_has_no_error() -> None:
    assert outcome(None).error is None


def test_the_whole_story_is_in_the_message() -> None:
    failure = Failure("died", "its process was killed by SIGSEGV", "Traceback:\n  line 3\n", None, "Fatal error\n")
    message = str(describe(outcome(failure, attempts=3)))
    assert message == (
        "task 7 failed: its process was killed by SIGSEGV\n"
        "  item: {'lr': 0.1}\n"
        "  seat 2, worker host:123, attempt 3, after 1.23 s\n"
        "\nTraceback in the worker:\nTraceback:\n  line 3\n"
        "\nThe last lines that it wrote:\nFatal error"
    )


def test_the_message_without_what_is_not_known() -> None:
    message = str(describe(outcome(Failure("raised", "ValueError: no"), item=None, worker="")))
    assert message == "task 7 failed: ValueError: no\n  seat 2, worker none, after 1.23 s"


def test_the_original_exception_is_the_cause() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        failure = raised(error)
    found = outcome(failure).error
    assert isinstance(found.__cause__, KeyError)
    assert found.__cause__.args == ("missing",)
    assert failure.summary == "KeyError: 'missing'"
    assert "test_outcome.py" in failure.traceback


class Stubborn(Exception):
    """Cannot be rebuilt from its args, as many exceptions in the wild."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Holding(Exception):
    """Has something with it that cannot travel at all."""

    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


def test_an_exception_with_arguments_of_its_own_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(copyreg.dispatch_table, Stubborn, raising=False)  # Dask, where it is imported, could pickle it
    error = Stubborn(5, reason="because")
    error.hint = "also"
    found = original(raised(error))
    assert isinstance(found, Stubborn)
    assert (str(found), found.hint) == ("5: because", "also")


def test_a_traceback_that_is_too_deep_does_not_keep_an_exception_from_travelling() -> None:
    def descend(depth: int) -> None:
        descend(depth + 1)

    before = dict(copyreg.dispatch_table)
    try:
        descend(0)
    except RecursionError as error:
        pickling_support.install(error)
        try:
            failure = raised(error)
        finally:
            copyreg.dispatch_table.clear()
            copyreg.dispatch_table.update(before)
    assert isinstance(original(failure), RecursionError)


def test_exceptions_that_cannot_be_pickled_travel_as_text() -> None:
    failure = raised(Holding())
    assert failure.exception is None
    assert "Holding: holds a lock" in failure.summary
    assert outcome(failure).error.__cause__ is None


def test_exceptions_without_a_text_travel_too() -> None:
    failure = raised(Unprintable())
    assert "Unprintable" in failure.summary
    assert failure.traceback


def test_a_local_exception_class_arrives() -> None:
    class Local(Exception):
        pass

    found = original(raised(Local("here")))
    assert type(found).__name__ == "Local"
    assert found.args == ("here",)


@pytest.mark.parametrize("exception", [None, b"", b"garbage", parcel.pack("not an exception").to_bytes()])
def test_no_original_is_no_trouble(exception: bytes | None) -> None:
    assert original(Failure("raised", "ValueError", exception=exception)) is None


def test_an_exception_that_carries_an_array() -> None:
    found = original(raised(ValueError(np.zeros(100_000))))
    assert found.args[0].shape == (100_000,)


def test_outcomes_and_failures_can_be_pickled() -> None:
    value = outcome(raised(ValueError("no")))
    assert pickle.loads(pickle.dumps(value)) == value


def test_unsendable_says_what() -> None:
    failure = unsendable("its result (generator)", TypeError("cannot pickle 'generator' object"))
    assert failure.kind == "unsendable"
    assert failure.summary == ("its result (generator) cannot be pickled: TypeError: cannot pickle 'generator' object")


# -- shorten ----------------------------------------------------------------------------------------------------------


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no repr")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (3, "3"),
        ("a\nb", r"'a\nb'"),
        (np.zeros((2, 2)), "array([[0., 0.], [0., 0.]])"),
        (Broken(), "<Broken, whose repr raised ValueError>"),
        ([Broken()], "<list, whose repr raised ValueError>"),
    ],
    ids=["number", "text", "array", "broken", "broken inside"],
)
def test_items_for_people(item: Any, expected: str) -> None:
    assert shorten(item) == expected


@given(st.text(max_size=500) | st.lists(st.integers(), max_size=200), st.integers(10, 200))
def test_a_shortened_item_is_one_short_line(item: Any, most: int) -> None:
    text = shorten(item, most)
    assert len(text) <= most
    assert "\n" not in text
    assert text == " ".join(repr(item).split()) or (text.endswith("...") and len(text) == most)


# -- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 70, 255])
def test_a_process_that_ended_by_itself(status: int) -> None:
    failure = exits.describe(status, b"", 0)
    assert failure == Failure("died", f"its process ended by itself with status {status}")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGBUS])
def test_a_process_that_was_killed(number: signal.Signals) -> None:
    assert exits.describe(-number, b"", 0).summary == f"its process was killed by {number.name}"


def test_sigkill_hints_at_memory() -> None:
    summary = exits.describe(-signal.SIGKILL, b"", 3 * 10**9).summary
    assert "SIGKILL" in summary
    assert "memory=" in summary
    assert summary.endswith("it had used up to 3.0 GB")


def test_a_signal_without_a_name() -> None:
    assert exits.describe(-99, b"", 0).summary == "its process was killed by signal 99"


def test_the_last_words_are_kept_whatever_they_are() -> None:
    assert exits.describe(1, b"caf\xc3\xa9 \xff\n", 0).output == "café �\n"
