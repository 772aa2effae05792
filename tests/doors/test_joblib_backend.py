"""The joblib backend "tenfold": what joblib's users count on, and what they get beyond loky."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.parallel import ThreadingBackend, get_active_backend

import scripts
import tenfold
import tenfold.joblib
import waiting
from tenfold import errors


@pytest.fixture
def two() -> Iterator[None]:
    """Two workers for everything in the test."""
    with parallel_config(backend="tenfold", n_jobs=2):
        yield


def pid_of(_: object = None) -> int:
    return os.getpid()


def both(*_: object) -> set[int]:
    """The processes of two calls that wait for each other, and so run in different workers."""
    with multiprocessing.Manager() as manager:
        barrier = manager.Barrier(2)

        def meet() -> int:
            barrier.wait(30)
            return os.getpid()

        return set(Parallel()(delayed(meet)() for _ in range(2)))


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two")
def test_results_are_in_the_order_of_the_calls() -> None:
    assert Parallel()(delayed(pow)(n, 2) for n in range(50)) == [n**2 for n in range(50)]
    assert list(Parallel(return_as="generator")(delayed(pow)(n, 2) for n in range(50))) == [n**2 for n in range(50)]


@pytest.mark.usefixtures("two")
def test_an_unordered_generator_gives_what_is_done_first(tmp_path: Path) -> None:
    def wait_or_not(n: int) -> int:
        if n == 0:
            waiting.for_file(tmp_path / "go")
        return n

    results = Parallel(return_as="generator_unordered")(delayed(wait_or_not)(n) for n in range(5))
    first = [next(results) for _ in range(4)]
    (tmp_path / "go").write_text("now")
    assert sorted(first) == [1, 2, 3, 4]
    assert list(results) == [0]


@pytest.mark.usefixtures("two")
def test_a_slow_call_keeps_no_other_waiting_behind_it(tmp_path: Path) -> None:
    """The calls of a batch that takes long are shared out again."""

    def note(n: int) -> int:
        if n == 0:
            time.sleep(0.3)  # longer than a batch is left to one worker
        return os.getpid()

    assert len(set(Parallel(batch_size=20)(delayed(note)(n) for n in range(20)))) == 2


@pytest.mark.usefixtures("two")
def test_lambdas_closures_and_classes_of_a_function_travel() -> None:
    class Pair:
        def __init__(self, a: int) -> None:
            self.a = a

    offset = 10
    found = Parallel()(delayed(lambda pair: Pair(pair.a + offset))(Pair(n)) for n in range(3))
    assert [pair.a for pair in found] == [10, 11, 12]


@pytest.mark.usefixtures("two")
def test_what_calls_print_is_there_when_the_call_returns(capsys: pytest.CaptureFixture[str]) -> None:
    Parallel()(delayed(print)(f"call {n}") for n in range(4))
    Parallel()(delayed(lambda n: print(f"fault {n}", file=sys.stderr))(n) for n in range(2))
    printed = capsys.readouterr()
    assert sorted(printed.out.splitlines()) == [f"call {n}" for n in range(4)]
    assert sorted(printed.err.splitlines()) == ["fault 0", "fault 1"]


@pytest.mark.usefixtures("two")
def test_a_call_that_takes_too_long_ends_the_whole() -> None:
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.2)(delayed(time.sleep)(60) for _ in range(2))
    assert Parallel(timeout=30)(delayed(abs)(-n) for n in range(3)) == [0, 1, 2]


@pytest.mark.usefixtures("two")
def test_random_numbers_are_others_in_each_worker_and_each_time() -> None:
    def draw() -> tuple[float, int]:
        time.sleep(0.01)
        return float(np.random.random()), os.getpid()

    drawn = Parallel(batch_size=1)(delayed(draw)() for _ in range(20))
    tenfold.joblib.shutdown()
    drawn += Parallel(batch_size=1)(delayed(draw)() for _ in range(20))
    assert len({number for number, _ in drawn}) == 40


@pytest.mark.usefixtures("two")
def test_a_task_sees_what_it_was_given() -> None:
    def look() -> tuple[float, str, bool]:
        here = tenfold.here()
        return here.cpus, here.device, here.folder.is_dir()

    assert Parallel()([delayed(look)(), delayed(look)()]) == [(max(1, os.cpu_count() // 2), "cpu", True)] * 2


# -- errors -----------------------------------------------------------------------------------------------------------


class Finicky(Exception):
    def __init__(self, *, what: str) -> None:
        super().__init__(what)


def refuse(n: int) -> int:
    if n == 3:
        raise Finicky(what="no threes")
    return n


@pytest.mark.usefixtures("two")
def test_an_error_is_the_tasks_own_with_its_traceback() -> None:
    with pytest.raises(Finicky, match="no threes") as caught:
        Parallel()(delayed(refuse)(n) for n in range(10))
    assert "in refuse" in str(caught.value.__cause__)


@pytest.mark.usefixtures("two")
def test_what_runs_beside_a_call_that_fails_is_killed(tmp_path: Path) -> None:
    def fail_or_stay(n: int) -> None:
        if n == 0:
            waiting.for_file(tmp_path / "pid")
            raise ValueError("enough")
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)

    with pytest.raises(ValueError, match="enough"):
        Parallel()(delayed(fail_or_stay)(n) for n in range(2))
    waiting.for_exit(int((tmp_path / "pid").read_text()))
    assert Parallel()(delayed(abs)(-n) for n in range(3)) == [0, 1, 2]


@pytest.mark.usefixtures("two")
def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(Exception, match=r"Could not pickle the task to send to the workers.*generator"):
        Parallel()(delayed(list)(n for n in range(3)) for _ in range(3))
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        Parallel()(delayed(lambda: (n for n in range(3)))() for _ in range(3))


def test_settings_that_cannot_work_are_refused_together() -> None:
    with pytest.raises(errors.BadCall) as caught, parallel_config("tenfold", gpus=-1, idle_worker_timeout=0, gpu=1):
        pass
    for part in ("gpus=-1", "idle_worker_timeout=0", "gpu=1 cannot be set", "initializer"):
        assert part in str(caught.value)
    with pytest.raises(errors.BadCall, match="initializer=5: expected a function"):
        Parallel(n_jobs=2, backend="tenfold", initializer=5)(delayed(abs)(n) for n in range(2))


def test_shutdown_while_a_call_runs_ends_it() -> None:
    results = Parallel(n_jobs=2, backend="tenfold", return_as="generator")(delayed(time.sleep)(60) for _ in range(2))
    tenfold.joblib.shutdown()
    with pytest.raises(errors.WorkersUnavailable, match=r"shutdown\(\) was called"):
        list(results)


# -- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two")
def test_workers_are_kept_for_the_next_call() -> None:
    first = both()
    assert len(first) == 2
    assert set(Parallel()(delayed(pid_of)() for _ in range(8))) <= first
    with Parallel() as parallel:
        assert set(parallel(delayed(pid_of)() for _ in range(8))) <= first
    assert set(Parallel(n_jobs=3)(delayed(pid_of)() for _ in range(8))).isdisjoint(first)
    assert set(Parallel()(delayed(pid_of)() for _ in range(8))) <= first


def test_workers_that_nobody_uses_end() -> None:
    with parallel_config("tenfold", n_jobs=2, idle_worker_timeout=0.1):
        used = both()
    for pid in used:
        waiting.for_exit(pid)
    with parallel_config("tenfold", n_jobs=2, idle_worker_timeout=0.1):
        assert both().isdisjoint(used)


@pytest.mark.usefixtures("two")
def test_workers_see_the_callers_folder_and_variables_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> tuple[str, str | None]:
        return os.getcwd(), os.environ.get("OF_THE_CALLER")

    assert Parallel()(delayed(look)() for _ in range(2)) == [(os.getcwd(), None)] * 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_CALLER", "1")
    assert Parallel()(delayed(look)() for _ in range(2)) == [(str(tmp_path), "1")] * 2


def test_an_initializer_runs_once_in_each_worker(tmp_path: Path) -> None:
    def begin(folder: Path) -> None:
        with open(folder / str(os.getpid()), "a") as file:
            file.write("begun")

    with parallel_config("tenfold", n_jobs=2, initializer=begin, initargs=(tmp_path,)):
        pids = both() | set(Parallel()(delayed(pid_of)() for _ in range(10)))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {str(pid): "begun" for pid in pids}


@pytest.mark.usefixtures("two")
def test_two_calls_at_once_do_not_get_in_each_others_way() -> None:
    """One within the other's input, and one beside the other: both have the backend of the block."""
    inner = (delayed(abs)(n) for n in Parallel()(delayed(pow)(n, 2) for n in range(20)))
    assert Parallel()(inner) == [n**2 for n in range(20)]
    first = Parallel(return_as="generator")(delayed(pow)(n, 2) for n in range(20))
    second = Parallel(return_as="generator")(delayed(pow)(n, 3) for n in range(20))
    assert list(zip(first, second, strict=True)) == [(n**2, n**3) for n in range(20)]


@pytest.mark.usefixtures("two")
def test_nested_calls_run_in_threads_and_then_one_by_one() -> None:
    def inner() -> str:
        return type(get_active_backend()[0]).__name__

    def outer() -> tuple[bool, set[int], list[str]]:
        is_threads = isinstance(get_active_backend()[0], ThreadingBackend)
        return is_threads, set(Parallel(n_jobs=2)(delayed(pid_of)() for _ in range(4))), Parallel(2)([delayed(inner)()])

    for is_threads, pids, below in Parallel()(delayed(outer)() for _ in range(2)):
        assert is_threads
        assert len(pids) == 1
        assert below == ["SequentialBackend"]


@pytest.mark.usefixtures("two")
def test_nested_workers_where_they_are_asked_for() -> None:
    def outer(n: int) -> tuple[list[int], int]:
        found = Parallel(n_jobs=2, backend="tenfold")(delayed(lambda m: (m * n, os.getpid()))(m) for m in range(4))
        return [value for value, _ in found], len({pid for _, pid in found} - {os.getpid()})

    for n, (values, processes) in enumerate(Parallel()(delayed(outer)(n) for n in range(3))):
        assert values == [m * n for m in range(4)]
        assert processes >= 1


def test_threads_are_those_of_the_seat_unless_the_caller_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> tuple[str | None, set[int]]:
        import threadpoolctl

        np.ones((64, 64)) @ np.ones((64, 64))
        return os.environ.get("OMP_NUM_THREADS"), {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}

    def seen(**settings: Any) -> tuple[str | None, set[int]]:
        with parallel_config("tenfold", n_jobs=2, **settings):
            first, second = Parallel()(delayed(look)() for _ in range(2))
        assert first == second
        return first

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    alone = max(1, os.cpu_count() // 2)
    assert seen() == (str(alone), {alone})
    assert seen(inner_max_num_threads=2) == ("2", {2})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "3")
    assert seen() == ("3", {3})
    assert seen(inner_max_num_threads=2) == ("2", {2})


# -- with others ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two")
def test_tenfolds_own_tasks_run_on_it() -> None:
    def task(n: int) -> int:
        if n == 3:
            raise ValueError("no threes")
        return n * n

    results = tenfold.map(task, range(6), engine="joblib", on_error="collect", progress=False)
    assert results[:3] + results[4:] == [0, 1, 4, 16, 25]
    assert isinstance(results[3], errors.TaskRaised)


def test_a_grid_search_finds_what_it_finds_with_loky() -> None:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    found = {}
    for backend in ("tenfold", "loky"):
        with parallel_config(backend=backend, n_jobs=2):
            search = GridSearchCV(SVC(), {"C": [0.1, 10.0], "gamma": [1e-3, 1e-2]}, cv=3, return_train_score=True)
            found[backend] = search.fit(x[:600], y[:600])
    get_reusable_executor().shutdown(wait=True)
    ours, lokys = (search.cv_results_ for search in found.values())
    assert ours.keys() == lokys.keys()
    for name in (name for name in ours if "time" not in name):
        np.testing.assert_array_equal(ours[name], lokys[name], err_msg=name)
    assert found["tenfold"].best_params_ == found["loky"].best_params_


def test_the_backend_is_found_by_its_name_only_when_it_was_imported(tmp_path: Path) -> None:
    text = """
        import joblib
        try:
            joblib.parallel_config(backend="tenfold")
        except ValueError as error:
            print("Invalid backend" in str(error))
        import tenfold.joblib
        with joblib.parallel_config(backend="tenfold", n_jobs=2):
            print(joblib.Parallel()(joblib.delayed(abs)(-n) for n in range(3)))
    """
    assert scripts.run(tmp_path, text).out.split("\n")[:2] == ["True", "[0, 1, 2]"]
