"""What a call gives back: a sequence in item order, and more than values. The serial engine is as good as any here."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold import errors
from tenfold.dispatch.results import Results


def results_of(count: int = 10, **options: Any) -> Results:
    def fail_at_four(x: int) -> int:
        if x == 4:
            raise ValueError("<four>")
        return 10 * x

    return tenfold.map(fail_at_four, range(count), engine="serial", on_error="collect", **options)


@pytest.mark.parametrize("keep", [False, True], ids=["no run", "run"])
def test_it_is_a_sequence(keep: bool, tmp_path: Path) -> None:
    results = results_of(run=tmp_path / "run" if keep else None)
    assert len(results) == 10
    assert results[0] == 0
    assert results[-1] == 90
    assert results[numpy.int64(3)] == 30
    assert results[1:4] == [10, 20, 30]
    assert results[::-3] == [90, 60, 30, 0]
    assert results[20:] == []
    assert list(results)[5:] == [50, 60, 70, 80, 90]
    assert list(reversed(results))[:2] == [90, 80]
    assert 70 in results
    assert results.index(70) == 7
    assert isinstance(results[4], errors.TaskRaised)


@pytest.mark.parametrize("index", [10, -11, 10**9])
def test_an_index_out_of_range_says_so(index: int) -> None:
    with pytest.raises(IndexError, match=f"result {index} of 10"):
        results_of()[index]


@pytest.mark.parametrize("index", ["0", 1.5, None])
def test_an_index_that_is_no_index(index: Any) -> None:
    with pytest.raises(TypeError):
        results_of()[index]


def test_a_value_is_the_same_object_each_time() -> None:
    results = tenfold.map(lambda x: [x], range(3), engine="serial")
    results[1].append("mine")
    assert results[1] == [1, "mine"]
    assert results[1] is results[1]
    assert list(results)[1] is results[1]


def test_outcomes_tell_what_became_of_each_task() -> None:
    outcomes = list(results_of().outcomes)
    assert [outcome.index for outcome in outcomes] == list(range(10))
    assert [outcome.ok for outcome in outcomes] == [x != 4 for x in range(10)]
    assert outcomes[3].value == 30
    assert outcomes[3].item == 3
    assert outcomes[3].error is None
    assert outcomes[4].value is None
    assert outcomes[4].failure is not None
    assert outcomes[4].failure.kind == "raised"
    assert "ValueError: <four>" in str(outcomes[4].error)
    assert all(outcome.seconds >= 0 and outcome.started > 1.7e9 and outcome.attempts == 1 for outcome in outcomes)
    assert all(outcome.worker for outcome in outcomes)


def test_failures_are_errors_in_item_order() -> None:
    def fail(x: int) -> None:
        raise ValueError(x)

    results = tenfold.map(fail, range(100), engine="serial", on_error="collect")
    assert [error.index for error in results.failures] == list(range(100))
    assert all(isinstance(error, errors.TaskRaised) for error in results.failures)


def test_a_frame_of_plain_items_and_values() -> None:
    frame = results_of().frame()
    assert list(frame.columns) == ["item", "value", "seconds", "attempts", "error"]
    assert list(frame.index) == list(range(10))
    assert frame.index.name == "task"
    assert frame.value[3] == 30
    assert frame.item[3] == 3
    assert "ValueError" in frame.error[4]
    assert frame.error.notna().sum() == 1


def test_a_frame_of_dicts_has_their_keys_as_columns() -> None:
    grid = [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (0, 1)]
    results = tenfold.map(lambda p: {"loss": p["lr"] * p["seed"], "epochs": 3}, grid, engine="serial")
    frame = results.frame()
    assert {"lr", "seed", "loss", "epochs"} <= set(frame.columns)
    assert "item" not in frame.columns
    assert "value" not in frame.columns
    assert list(frame.lr) == [0.1, 0.1, 0.2, 0.2]
    assert list(frame.loss) == [0.0, 0.1, 0.0, 0.2]


def test_a_frame_keeps_an_item_and_a_value_of_the_same_name() -> None:
    """A task that is given `seconds` or returns `lr` must not have it overwritten in silence."""
    frame = tenfold.map(lambda p: {"lr": 0.5, "seconds": 7.0}, [{"lr": 0.1}], engine="serial").frame()
    row = frame.iloc[0].to_dict()
    assert 0.1 in row.values()
    assert 0.5 in row.values()
    assert 7.0 in row.values()


def test_a_frame_of_no_tasks_is_empty() -> None:
    frame = tenfold.map(abs, [], engine="serial").frame()
    assert len(frame) == 0


def test_a_frame_where_every_task_failed() -> None:
    def fail(x: int) -> None:
        raise ValueError(x)

    frame = tenfold.map(fail, range(3), engine="serial", on_error="collect").frame()
    assert len(frame) == 3
    assert frame.error.notna().all()


def test_repr_is_short_and_tells_the_failures() -> None:
    text = repr(results_of(1000))
    assert text.startswith("Results: 1000 tasks, 999 done, 1 failed")
    assert "[3] 30" in text
    assert "failed: ValueError: <four>" in text
    assert "... 992 more" in text
    assert len(text.splitlines()) == 10


def test_repr_of_large_and_strange_values() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no picture")

    results = tenfold.map(lambda x: Broken() if x else "x" * 10_000 + "\n", range(2), engine="serial")
    assert "whose repr raised RuntimeError" in repr(results)
    assert max(map(len, repr(results).splitlines())) < 120


def test_html_is_escaped() -> None:
    text = results_of()._repr_html_()
    assert "&lt;four&gt;" in text
    assert "<four>" not in text
    assert "10 tasks, 9 done, 1 failed" in text
    assert "... 2 more" in text


def test_summary_and_times() -> None:
    results = results_of()
    assert results.summary().startswith("10 tasks, 9 done, 1 failed, ")
    assert results.seconds > 0
    assert results.workers == 1


def test_tasks_failed_can_be_pickled_without_its_results() -> None:
    with pytest.raises(errors.TasksFailed) as caught:
        tenfold.map(int, ["no number"], engine="serial")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.failures == []


def test_results_of_a_run_can_be_read_while_the_next_call_writes(tmp_path: Path) -> None:
    first = results_of(run=tmp_path / "run")
    second = results_of(run=tmp_path / "run")
    assert first[3] == second[3] == 30
    third = results_of(run=tmp_path / "run", fresh=True)
    assert third[3] == 30
