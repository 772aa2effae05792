"""Ctrl-C in the middle of a call: it ends at once, keeps what was finished, and the same call continues."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import endings
import pytest

import leftovers
import scripts
import waiting
from tenfold import engines

_INTERRUPTED = (-signal.SIGINT, 1)
"""How a script ends by Ctrl-C; where Ray has been imported, its hook makes Python end with 1."""


def _next(engine: str) -> str:
    """The engine that goes on: the same one, or the local one where a start takes long.

    That a cluster goes on with a run is shown where callers are killed.
    """
    return "local" if engine in ("dask", "ray") else engine


@pytest.mark.parametrize("engine", engines.names())
def test_ctrl_c_keeps_what_was_finished(engine: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    text, other = (
        endings.script(tmp_path, run=run, count=20, seconds=0.05, options=f"engine={name!r}, workers=2")
        for name in (engine, _next(engine))
    )
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: sum(endings.runs(tmp_path, 20).values()) >= 5)
        began = time.monotonic()
        script.interrupt()
        ended = script.end(15)
        assert time.monotonic() - began < 5
    assert ended.status in _INTERRUPTED
    assert "KeyboardInterrupt" in ended.err
    assert "the same call continues the run in" in ended.err
    assert "/20 done" in ended.err
    waiting.until(lambda: not leftovers.processes(), 5)
    kept, before = endings.committed(run), endings.runs(tmp_path, 20)
    assert len(kept) >= 3
    assert len(kept) < 20
    again = scripts.run(tmp_path, other)
    assert endings.results(again.out) == endings.expected(20)
    after = endings.runs(tmp_path, 20)
    assert {x: after[x] for x in kept} == {x: before[x] for x in kept}


@pytest.mark.parametrize("engine", engines.names())
def test_ctrl_c_without_a_run_leaves_nothing(engine: str, tmp_path: Path) -> None:
    before = leftovers.files()
    text = endings.script(tmp_path, count=20, seconds=5, options=f"engine={engine!r}, workers=2")
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: (tmp_path / "began").exists())
        script.interrupt()
        ended = script.end(15)
    assert ended.status in _INTERRUPTED
    assert "KeyboardInterrupt" in ended.err
    waiting.until(lambda: not leftovers.processes(), 5)
    assert not leftovers.files() - before


@pytest.mark.parametrize("gap", [0.0, 0.03])
def test_ctrl_c_twice(gap: float, tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = endings.script(tmp_path, run=run, count=20, seconds=0.05)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: sum(endings.runs(tmp_path, 20).values()) >= 5)
        script.interrupt()
        time.sleep(gap)  # how fast a person is: the thing that is tried here
        if script.process.poll() is None:
            script.interrupt()
        script.end(15)
    waiting.until(lambda: not leftovers.processes(), 5)
    kept, before = endings.committed(run), endings.runs(tmp_path, 20)
    again = scripts.run(tmp_path, text)
    assert endings.results(again.out) == endings.expected(20)
    after = endings.runs(tmp_path, 20)
    assert {x: after[x] for x in kept} == {x: before[x] for x in kept}


def test_ctrl_c_while_the_nursery_is_still_importing(tmp_path: Path) -> None:
    text = """
        import pathlib
        import tenfold

        def train(x):
            import tensorflow
            return x

        pathlib.Path("began").touch()
        tenfold.map(train, range(4))
    """
    with scripts.started(tmp_path, text, {"TF_CPP_MIN_LOG_LEVEL": "3"}) as script:
        waiting.until(lambda: len(scripts.descendants(script.pid)) == 1, what="a nursery")
        began = time.monotonic()
        script.interrupt()
        ended = script.end(15)
        assert time.monotonic() - began < 5
    assert ended.status in _INTERRUPTED
    waiting.until(lambda: not leftovers.processes(), 5)


def test_a_caller_that_catches_ctrl_c_may_go_on(tmp_path: Path) -> None:
    text = """
        import os, pathlib, signal, time
        import tenfold

        def wait(x):
            pathlib.Path("waiting").touch()
            time.sleep(60)

        try:
            tenfold.map(wait, range(4))
        except KeyboardInterrupt:
            print("stopped")
        print(tenfold.map(abs, [-1, -2])[:])
    """
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: (tmp_path / "waiting").exists())
        script.interrupt()
        ended = script.end(15)
    assert ended.out.splitlines() == ["stopped", "[1, 2]"], ended.err
    assert ended.status == 0
