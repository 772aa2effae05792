"""The contract of every engine: what becomes of tasks that fail, and of the others."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tenfold
from tenfold import errors
from tenfold.plan.choose import Abilities


def _fail_at_three(x: int) -> int:
    if x == 3:
        raise ValueError(f"bad value {x}")
    return x


# -- what the error says ----------------------------------------------------------------------------------------------


def test_the_error_tells_the_tasks_story(engine: str) -> None:
    with pytest.raises(errors.TasksFailed) as caught:
        tenfold.map(_fail_at_three, range(5), engine=engine)
    (error,) = caught.value.failures
    assert isinstance(error, errors.TaskRaised)
    assert isinstance(error, RuntimeError)
    assert error.index == 3
    assert error.attempts == 1
    for part in ("task 3 failed: ValueError: bad value 3", "item: 3", "seat ", "worker ", "in _fail_at_three"):
        assert part in str(error)
        assert part in str(caught.value)
    assert 'raise ValueError(f"bad value {x}")' in error.traceback
    assert "tenfold/work/run.py" not in error.traceback
    assert "1 of 5 tasks failed" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.args == ("bad value 3",)


def _unpicklable(x: int) -> None:
    import threading

    error = OSError("cannot travel")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def _local_class(x: int) -> None:
    class OnlyHere(Exception):
        pass

    raise OnlyHere("cannot travel")


def _workers_module(x: int) -> None:
    """The class is importable in the worker alone."""
    import sys
    import types

    module = types.ModuleType("only_in_the_worker")
    exec("class Strange(Exception): pass", module.__dict__)
    sys.modules["only_in_the_worker"] = module
    try:
        raise module.Strange("cannot travel")
    finally:
        import os

        if os.environ.get("TENFOLD_SEAT") is None:  # the caller's own process
            del sys.modules["only_in_the_worker"]


class NeedsArguments(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"code {code}: {reason}")


def _needs_arguments(x: int) -> None:
    raise NeedsArguments(7, "cannot travel")


class NotAnException(BaseException):
    pass


def _base_exception(x: int) -> None:
    raise NotAnException("cannot travel")


def _exit(x: int) -> None:
    raise SystemExit("cannot travel")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def _unprintable(x: int) -> None:
    raise Unprintable


def _chained(x: int) -> None:
    try:
        raise KeyError("the first one")
    except KeyError as error:
        raise RuntimeError("cannot travel") from error


def _group(x: int) -> None:
    raise ExceptionGroup("cannot travel", [ValueError(1), TypeError(2)])


def _stop_iteration(x: int) -> None:
    raise StopIteration("cannot travel")


def _very_long(x: int) -> None:
    raise ValueError("cannot travel " + 3_000_000 * "x")


_RAISING: dict[str, tuple[Callable[[int], None], str]] = {
    "unpicklable": (_unpicklable, "OSError"),
    "class made in the task": (_local_class, "OnlyHere"),
    "class of a module that only the worker has": (_workers_module, "Strange"),
    "arguments needed": (_needs_arguments, "NeedsArguments"),
    "BaseException": (_base_exception, "NotAnException"),
    "SystemExit": (_exit, "SystemExit"),
    "unprintable": (_unprintable, "Unprintable"),
    "chained": (_chained, "the first one"),
    "group": (_group, "TypeError"),
    "StopIteration": (_stop_iteration, "StopIteration"),
    "3 MB of text": (_very_long, "ValueError"),
}


def _raise(name: str) -> None:
    _RAISING[name][0](0)


def test_whatever_is_raised_arrives_as_text_at_least(engine: str) -> None:
    results = tenfold.map(_raise, list(_RAISING), engine=engine, on_error="collect")
    for (name, (function, expected)), error in zip(_RAISING.items(), results, strict=True):
        assert isinstance(error, errors.TaskRaised), name
        assert expected in str(error), name
        assert function.__name__ in error.traceback, name
        if name != "unprintable":
            assert "cannot travel" in str(error), name
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error), name
        assert again.failure == error.failure, name


def test_an_exception_that_can_travel_is_the_cause(engine: str) -> None:
    def fail(x: int) -> None:
        error = KeyError(x, "two")
        error.add_note("a note")
        raise error

    error = tenfold.map(fail, [5], engine=engine, on_error="collect")[0]
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == (5, "two")
    assert "a note" in str(error)


def test_ctrl_c_raised_by_a_task_in_a_process_of_its_own_is_a_failure(engine: str, abilities: Abilities) -> None:
    if not abilities.processes:
        pytest.skip("in the caller's own process Ctrl-C is for the caller")

    def interrupt(x: int) -> None:
        raise KeyboardInterrupt

    results = tenfold.map(interrupt, [0], engine=engine, on_error="collect")
    assert "KeyboardInterrupt" in str(results[0])


# -- on_error ---------------------------------------------------------------------------------------------------------


def test_raise_finishes_all_others_first(engine: str) -> None:
    def fail_on_odd(x: int) -> int:
        if x % 2:
            raise ValueError(x)
        return x

    with pytest.raises(errors.TasksFailed) as caught:
        tenfold.map(fail_on_odd, range(40), engine=engine)
    results = caught.value.results
    assert len(results) == 40
    assert [value for value in results if not isinstance(value, errors.TaskError)] == list(range(0, 40, 2))
    assert [error.index for error in caught.value.failures] == list(range(1, 40, 2))
    assert "20 of 40 tasks failed" in str(caught.value)
    assert "and 17 more" in str(caught.value)


def test_collect_never_raises(engine: str) -> None:
    results = tenfold.map(_fail_at_three, range(5), engine=engine, on_error="collect")
    assert [results[x] for x in (0, 1, 2, 4)] == [0, 1, 2, 4]
    assert isinstance(results[3], errors.TaskRaised)
    assert [error.index for error in results.failures] == [3]


def test_stop_ends_the_call_at_the_first_failure(engine: str) -> None:
    began = time.monotonic()

    def slow_after_the_first(x: int) -> int:
        import time

        if x == 0:
            raise ValueError("at once")
        time.sleep(60 if x == 1 else 0.001)  # the work of the others
        return x

    with pytest.raises(errors.TasksFailed, match="at once") as caught:
        tenfold.map(slow_after_the_first, itertools.count(), engine=engine, on_error="stop", workers=2)
    assert time.monotonic() - began < 10
    assert [error.index for error in caught.value.failures] == [0]
    assert isinstance(caught.value.results[0], errors.TaskRaised)


def test_stop_keeps_what_was_finished_and_names_what_was_not_run(engine: str) -> None:
    def fail_at_five(x: int) -> int:
        import time

        time.sleep(0.03)  # the work
        if x == 5:
            raise ValueError(x)
        return x

    with pytest.raises(errors.TasksFailed) as caught:
        tenfold.map(fail_at_five, range(50), engine=engine, on_error="stop", workers=1)
    results = caught.value.results
    assert results[:5] == [0, 1, 2, 3, 4]
    for outcome in itertools.islice(results.outcomes, 20, None):  # those that travelled with the sixth may have run
        assert not outcome.ok
        assert "it was not run" in str(outcome.error)


def test_stop_with_a_run_can_be_continued(engine: str, tmp_path: Path) -> None:
    def fail_until_told(x: int) -> int:
        import time

        time.sleep(0.01)  # the work
        if x == 5 and not (tmp_path / "told").exists():
            raise ValueError(x)
        return x

    def call() -> Any:
        return tenfold.map(fail_until_told, range(30), engine=engine, on_error="stop", run=tmp_path / "run")

    with pytest.raises(errors.TasksFailed):
        call()
    (tmp_path / "told").touch()
    assert call()[:] == list(range(30))


# -- retries ----------------------------------------------------------------------------------------------------------

# How often each task fails before it succeeds, and what a call with two retries makes of it.
_FAILURES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 0, 5: 99}


def test_retries_follow_the_table(engine: str, tmp_path: Path) -> None:
    def fail_at_first(x: int) -> tuple[int, int]:
        import tenfold

        attempt = tenfold.here().attempt
        with open(tmp_path / str(x), "a") as file:
            file.write(f"{attempt} ")
        if attempt <= _FAILURES[x]:
            raise ValueError(f"attempt {attempt} of task {x}")
        return x, attempt

    results = tenfold.map(fail_at_first, range(6), engine=engine, retries=2, on_error="collect")
    for x, failures in _FAILURES.items():
        attempts = min(failures, 2) + 1
        assert (tmp_path / str(x)).read_text().split() == [str(n) for n in range(1, attempts + 1)]
        if failures <= 2:
            assert results[x] == (x, failures + 1)
        else:
            assert isinstance(results[x], errors.TaskRaised)
            assert results[x].attempts == 3
            assert f"attempt 3 of task {x}" in str(results[x])
    assert [outcome.attempts for outcome in results.outcomes] == [1, 2, 3, 3, 1, 3]
    assert len(results.failures) == 2


def test_a_retry_draws_the_same_random_numbers(engine: str) -> None:
    def draw(x: int) -> float:
        import random

        import tenfold

        value = random.random()
        if tenfold.here().attempt == 1:
            raise ValueError(value)
        return value

    first = tenfold.map(draw, range(4), engine=engine, on_error="collect")
    again = tenfold.map(draw, range(4), engine=engine, retries=1)
    assert [error.__cause__.args[0] for error in first] == again[:]


# -- timeout ----------------------------------------------------------------------------------------------------------


def _endless_at_one(x: int) -> int:
    while x == 1:
        pass
    return x


def test_an_endless_loop_is_stopped_and_the_others_are_not(engine: str, abilities: Abilities) -> None:
    if abilities.stops == "never":
        with pytest.raises(errors.BadCall, match="timeout"):
            tenfold.map(_endless_at_one, range(4), engine=engine, timeout=0.3)
        return
    began = time.monotonic()
    results = tenfold.map(_endless_at_one, range(4), engine=engine, timeout=0.3, on_error="collect")
    assert time.monotonic() - began < 15
    assert [results[x] for x in (0, 2, 3)] == [0, 2, 3]
    assert isinstance(results[1], errors.TaskTimedOut)
    assert isinstance(results[1], TimeoutError)
    assert "timeout=0.3 s" in str(results[1])
    assert "item: 1" in str(results[1])


def test_a_task_that_ran_out_of_time_is_retried(engine: str, abilities: Abilities) -> None:
    if abilities.stops == "never":
        pytest.skip("this engine refuses timeout=")

    def slow_at_first(x: int) -> int:
        import tenfold

        while tenfold.here().attempt == 1:
            try:
                list(range(1000))
            except Exception:  # a task's own handling must not swallow it
                pass
        return x

    assert tenfold.map(slow_at_first, [4, 5], engine=engine, timeout=0.3, retries=1)[:] == [4, 5]


def test_a_timeout_of_a_nested_call_leaves_the_outer_one_alone(engine: str, abilities: Abilities) -> None:
    if abilities.stops == "never":
        pytest.skip("this engine refuses timeout=")

    def nest(x: int) -> int:
        import time

        import tenfold

        tenfold.map(abs, [1], engine="serial", timeout=50)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            pass
        return x

    results = tenfold.map(nest, [1], engine=engine, timeout=0.8, on_error="collect")
    assert isinstance(results[0], errors.TaskTimedOut)


def test_a_timeout_that_cannot_be_kept_in_a_thread_is_refused_not_ignored(engine: str, abilities: Abilities) -> None:
    import threading

    found: list[BaseException] = []

    def slow(x: int) -> None:
        import time

        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass

    def call() -> None:
        try:
            tenfold.map(slow, [1], engine=engine, timeout=0.2)
        except errors.TenfoldError as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found, "the task ran seven times its timeout, and nobody said so"
    assert isinstance(found[0], errors.BadCall) or isinstance(found[0].failures[0], errors.TaskTimedOut)
