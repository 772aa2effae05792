"""The contract of every engine: the caller's process is as it was, and what cannot be kept is refused."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import errors
from tenfold.plan.choose import Abilities


def test_the_callers_environment_is_never_written(engine: str, tmp_path: Path) -> None:
    text = """
        import joblib, numpy, os  # joblib sets a variable of its own
        before = dict(os.environ)
        import tenfold

        def write(x):
            seen = dict(os.environ)
            here = tenfold.here()
            return here.index

        assert tenfold.map(write, range(4), engine=%r, cpus=1)[:] == [0, 1, 2, 3]
        after = dict(os.environ)
        print(sorted(set(before.items()) ^ set(after.items())))
    """
    assert scripts.run(tmp_path, text % engine).out == "[]\n"


def test_the_callers_threads_folder_path_and_modules_are_as_they_were(engine: str, tmp_path: Path) -> None:
    text = """
        import os, signal, sys, threading
        import numpy, threadpoolctl
        import tenfold
        def state():
            return (
                [(pool["filepath"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()],
                os.sched_getaffinity(0), os.getcwd(), list(sys.path), list(sys.argv), signal.getsignal(signal.SIGALRM),
                [type(finder).__name__ for finder in sys.meta_path], signal.getsignal(signal.SIGINT),
            )
        tenfold.map(abs, [1], engine=%r)
        before = state()
        tenfold.map(lambda x: numpy.linalg.norm(numpy.ones((50, 50)) @ numpy.ones((50, 50))), range(4), engine=%r)
        after = state()
        print(before == after or (before, after))
    """
    assert scripts.run(tmp_path, text % (engine, engine)).out == "True\n"


def test_tasks_see_the_callers_environment_and_folder(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_CALLER", "of now")

    def look(x: int) -> tuple[str | None, str]:
        import os

        return os.environ.get("OF_THE_CALLER"), os.getcwd()

    assert tenfold.map(look, [0], engine=engine)[:] == [("of now", str(tmp_path))]


def _touch(path: Path) -> Any:
    def touch(x: int) -> None:
        path.write_text("work was done")

    return touch


@pytest.mark.parametrize(
    ("options", "ability"),
    [
        ({"isolate": True}, lambda abilities: abilities.isolates),
        ({"memory": "500MB"}, lambda abilities: abilities.limits_memory),
        ({"timeout": 50}, lambda abilities: abilities.stops != "never"),
    ],
    ids=["isolate", "memory", "timeout"],
)
def test_what_an_engine_cannot_keep_is_refused_before_work_starts(
    engine: str, abilities: Abilities, options: dict[str, Any], ability: Any, tmp_path: Path
) -> None:
    if ability(abilities):
        tenfold.map(_touch(tmp_path / "touched"), [0], engine=engine, **options)
        assert (tmp_path / "touched").exists()
        return
    with pytest.raises(errors.BadCall, match=next(iter(options))):
        tenfold.map(_touch(tmp_path / "touched"), [0], engine=engine, run=tmp_path / "run", **options)
    assert not (tmp_path / "touched").exists()
    assert not (tmp_path / "run").exists()


def test_gpus_are_leased_or_refused(
    engine: str, abilities: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "2")
    if not abilities.leases_gpus:
        with pytest.raises(errors.BadCall, match="gpus"):
            tenfold.map(_touch(tmp_path / "touched"), [0], engine=engine, gpus=1)
        assert not (tmp_path / "touched").exists()
        return

    def look(x: int) -> tuple[str, tuple[str, ...]]:
        return tenfold.here().device, tenfold.here().gpus

    results = tenfold.map(look, range(6), engine=engine, gpus=1)
    assert {device for device, _ in results} == {"cuda:0"}
    assert {gpus for _, gpus in results} <= {("0",), ("1",)}


def test_more_than_there_is_is_refused_with_the_numbers(engine: str, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    with pytest.raises(errors.DoesNotFit, match=f"cpus={cores + 1}, and {cores} may be used"):
        tenfold.map(_touch(tmp_path / "touched"), [0], engine=engine, cpus=cores + 1)
    assert not (tmp_path / "touched").exists()


def test_a_timeout_without_end_is_kept_or_refused(engine: str, abilities: Abilities) -> None:
    if abilities.stops == "never":
        pytest.skip("this engine refuses timeout=")
    with contextlib.suppress(errors.BadCall):
        assert tenfold.map(abs, [-1], engine=engine, timeout=float("inf"))[:] == [1]
