"""The local engine and the nursery that it forks workers from, or does not."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import errors
from tenfold.engines import Event
from tenfold.engines.local import LocalCrew
from tenfold.nursery import client


def test_all_calls_of_a_process_share_one_nursery() -> None:
    tenfold.map(abs, [1])
    first = client.get()._process
    tenfold.map(abs, [1], isolate=True)
    threads = [threading.Thread(target=tenfold.map, args=(abs, [1])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second = client.get()._process
    assert first is not None
    assert second is not None
    assert first.pid == second.pid


def test_workers_are_children_of_the_nursery_and_so_are_nested_ones() -> None:
    def parents(x: int) -> tuple[int, int]:
        return os.getppid(), tenfold.map(lambda _: os.getppid(), [0])[0]

    found = tenfold.map(parents, [0])[0]
    process = client.get()._process
    assert process is not None
    assert found == (process.pid, process.pid)


@pytest.mark.slow
def test_the_nursery_never_creates_a_tensor(tmp_path: Path) -> None:
    text = """
        import tenfold
        from tenfold.nursery import client
        from tenfold.nursery.wire import Wire

        tenfold.warm("torch", "tensorflow", "jax", "keras", "sklearn")
        wire = Wire(client.get().session())
        wire.receive()
        wire.send(("state",))  # is answered when all is imported
        (_, state), _ = wire.receive()
        wire.close()
        print(state["unsafe"])
        print(sorted(state["failed"]))
        print(sorted({name.partition(".")[0] for name in state["imported"]}))

        def one_of_each(x):
            import jax, tensorflow, torch
            return float(torch.ones(3).sum()), float(tensorflow.ones(4).numpy().sum()), float(jax.numpy.ones(5).sum())

        print(set(tenfold.map(one_of_each, range(4))))
        wire = Wire(client.get().session())
        (_, state), _ = wire.receive()
        wire.close()
        print(state["unsafe"])
    """
    ended = scripts.run(tmp_path, text, {"TF_CPP_MIN_LOG_LEVEL": "3"})
    expected = ["None", "[]", "['jax', 'keras', 'sklearn', 'tensorflow', 'torch']", "{(3.0, 4.0, 5.0)}", "None"]
    assert [line for line in ended.out.splitlines() if "WARNING" not in line and "cuda" not in line] == expected


def test_a_nursery_that_must_not_fork_says_so_and_workers_are_spawned(tmp_path: Path) -> None:
    """A module that starts a thread when it is imported stands in for a framework that does."""
    starts_a_thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "scipy.py").write_text(starts_a_thread)
    text = """
        import os, sys
        sys.path.insert(0, {folder!r})
        import tenfold
        from tenfold.nursery import client

        def use(x):
            import scipy
            return x, os.getppid()

        results = tenfold.map(use, range(4))
        print([x for x, _ in results], {{parent for _, parent in results}} == {{os.getpid()}})
    """
    ended = scripts.run(tmp_path, text.format(folder=str(tmp_path)))
    assert ended.out == "[0, 1, 2, 3] True\n"


def test_an_import_that_fails_ahead_is_told_once_and_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise RuntimeError('built for another machine')")
    text = """
        import sys, warnings
        sys.path.insert(0, {folder!r})
        import tenfold

        def use(x):
            try:
                import scipy
            except RuntimeError:
                return x

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(tenfold.map(use, range(3))[:], tenfold.map(use, range(3))[:])
        print([str(warning.message).splitlines()[0] for warning in caught])
        print("built for another machine" in str(caught[0].message))
    """
    ended = scripts.run(tmp_path, text.format(folder=str(tmp_path)))
    expected = ["[0, 1, 2] [0, 1, 2]", "['tenfold could not import scipy ahead of the workers:']", "True"]
    assert ended.out.splitlines() == expected


# -- TENFOLD_START=spawn: the same behaviour from fresh interpreters --------------------------------------------------


@pytest.fixture
def _spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_START", "spawn")


@pytest.mark.usefixtures("_spawn")
class TestSpawned:
    def test_results_and_parents(self) -> None:
        results = tenfold.map(lambda x: (x * x, os.getppid()), range(50), workers=2)
        assert [value for value, _ in results] == [x * x for x in range(50)]
        assert {parent for _, parent in results} == {os.getpid()}

    def test_seeds(self) -> None:
        import test_contract_seeds

        assert tenfold.map(test_contract_seeds.draw, range(4))[:] == test_contract_seeds.plain_loop(4)

    def test_arrays(self) -> None:
        def make(n: int) -> Any:
            import numpy

            return numpy.full(200_000, n)

        results = tenfold.map(make, range(3))
        assert [(array == n).all() for n, array in enumerate(results)] == [True] * 3

    def test_failures(self) -> None:
        def fail(x: int) -> int:
            while x == 2:
                pass
            if x == 1:
                os._exit(9)
            if x == 0:
                raise ValueError("here")
            return x

        results = tenfold.map(fail, range(4), timeout=2, on_error="collect")
        kinds = [errors.TaskRaised, errors.TaskDied, errors.TaskTimedOut, int]
        assert [type(value) for value in results] == kinds
        assert "status 9" in str(results[1])

    def test_folder_report_and_output(self, capfd: pytest.CaptureFixture[str]) -> None:
        def talk(x: int) -> str:
            here = tenfold.here()
            here.report(1, loss=0.5)
            print(f"spoken by {x}")
            (here.folder / "file").touch()
            return str(here.folder)

        results = tenfold.map(talk, range(2))
        assert not any(Path(path).exists() for path in results)
        assert len(list(results.reports())) == 2
        assert "spoken by 1" in capfd.readouterr().out

    def test_isolated(self) -> None:
        assert len(set(tenfold.map(lambda _: os.getpid(), range(3), isolate=True))) == 3

    def test_nested(self) -> None:
        assert tenfold.map(lambda x: tenfold.map(abs, [x, -x])[:], [3])[:] == [[3, 3]]


def test_output_reaches_a_stdout_that_was_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    tenfold.map(lambda x: print(f"task {x} speaks"), range(3))
    assert sorted(capfd.readouterr().out.splitlines()) == [f"task {x} speaks" for x in range(3)]


def test_no_line_is_lost_at_the_end_of_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    for call in range(150):
        tenfold.map(lambda x: print(f"call {call}, task {x}"), range(2))
    lines = set(capfd.readouterr().out.splitlines())
    assert lines == {f"call {call}, task {x}" for call in range(150) for x in range(2)}


def test_a_caller_that_was_busy_hears_of_reports_with_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is in shared memory, and may end the call; what was reported before it comes by a socket."""

    receive = LocalCrew.receive

    def late(crew: LocalCrew, seconds: float) -> list[Event]:
        time.sleep(0.2)  # busy
        return receive(crew, seconds)

    monkeypatch.setattr(LocalCrew, "receive", late)

    def task(item: int) -> None:
        for step in range(3):
            tenfold.here().report(step, loss=0.5)

    results = tenfold.map(task, [7], engine="local", progress=False)
    assert [report.step for report in results.reports()] == [0, 1, 2]
