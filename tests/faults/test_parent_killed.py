"""The caller is killed by SIGKILL: nothing of it stays, and what was finished is never run again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import endings
import pytest

import leftovers
import scripts
import waiting
from tenfold import engines

KILLS = 3


def _kills(engine: str) -> int:
    """The journal is the caller's on every engine: where the start takes long, one kill shows what three do."""
    return KILLS if engine == "local" else 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", engines.names())
def test_killed_at_random_moments_it_always_continues(engine: str, tmp_path: Path) -> None:
    run, last = tmp_path / "run", _kills(engine)
    text = endings.script(tmp_path, run=run, options=f"engine={engine!r}")
    moments = random.Random(0)
    for kills in range(last + 1):
        finished, before = endings.committed(run), endings.runs(tmp_path)
        (tmp_path / "began").unlink(missing_ok=True)
        with scripts.started(tmp_path, text) as script:
            waiting.until(lambda: (tmp_path / "began").exists() or script.process.poll() is not None)
            try:
                ended = script.process.wait(moments.uniform(0.0, 0.3)) if kills < last else script.end().status
            except subprocess.TimeoutExpired:
                script.kill()
                ended = None
        after = endings.runs(tmp_path)
        assert {x: after[x] for x in finished} == {x: before[x] for x in finished}, "a committed task ran again"
        if ended is not None:
            break
    assert ended == 0, script.err
    assert kills > 0
    assert endings.results(script.out) == endings.expected()
    assert all(count >= 1 for count in endings.runs(tmp_path).values())


_ENDLESS = """
    import os, pathlib, subprocess, sys, threading, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def work(x):
        child = subprocess.Popen(["sleep", "300"])
        while True:
            for n in range(50):
                (tenfold.here().folder / str(n)).write_text("x" * 1000)
            (folder / f"working {{x}}").touch()

    tenfold.map(work, range(4), workers=2, {options})
"""


@pytest.mark.parametrize(
    ("options", "start", "number"),
    [
        ("", "fork", signal.SIGKILL),
        ("", "fork", signal.SIGTERM),
        ("isolate=True", "fork", signal.SIGHUP),
        ("", "spawn", signal.SIGKILL),
        ("engine='joblib'", "fork", signal.SIGKILL),
    ],
    ids=["fork", "SIGTERM", "isolated", "spawn", "joblib"],
)
def test_no_process_and_no_file_outlives_a_killed_caller(
    options: str, start: str, number: signal.Signals, tmp_path: Path
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:  # under nohup, scripts ignore it as well
        number = signal.SIGTERM
    before = leftovers.files()
    text = _ENDLESS.format(folder=str(tmp_path), options=options)
    with scripts.started(tmp_path, text, {"TENFOLD_START": start}) as script:
        waiting.until(lambda: len(list(tmp_path.glob("working *"))) == 2 or script.process.poll() is not None)
        assert script.process.poll() is None, script.err
        script.process.send_signal(number)
        script.process.wait(5)
    waiting.until(lambda: not leftovers.processes(), 5, "the end of all processes")
    waiting.until(lambda: not leftovers.files() - before, 5, f"the end of {leftovers.files()}")


def test_no_process_outlives_a_caller_killed_while_the_nursery_imports(tmp_path: Path) -> None:
    text = """
        import pathlib, time
        import tenfold
        from tenfold.nursery import client
        tenfold.warm("tensorflow")
        pathlib.Path("nursery").write_text(str(client.get()._process.pid))
        time.sleep(60)
    """
    with scripts.started(tmp_path, text) as script:
        nursery = int(waiting.for_file(tmp_path / "nursery"))
        maps = Path(f"/proc/{nursery}/maps")
        waiting.until(lambda: "tensorflow" in maps.read_text(), what="the import of TensorFlow")
        script.kill()
        waiting.for_exit(nursery, 5)
    waiting.until(lambda: not leftovers.processes(), 5)


def test_no_process_outlives_a_caller_killed_while_it_imports_a_framework_itself(tmp_path: Path) -> None:
    text = """
        import pathlib, os
        import tenfold
        pathlib.Path("began").touch()
        import torch
        pathlib.Path("done").touch()
    """
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(scripts.descendants(script.pid)) == 1, what="a nursery")
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 5)


def test_no_process_outlives_a_caller_that_just_ends(tmp_path: Path) -> None:
    """Without a call to anything that ends it; os._exit runs no handler at all."""
    for ending in ("sys.exit(0)", "os._exit(0)", "raise SystemExit"):
        text = f"""
            import os, sys
            import tenfold
            tenfold.map(abs, [1])
            {ending}
        """
        scripts.run(tmp_path, text)
        waiting.until(lambda: not leftovers.processes(), 5)


def test_a_lock_does_not_outlive_its_holder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = endings.script(tmp_path, run=run, count=4, seconds=0.02)
    with scripts.started(tmp_path, endings.script(tmp_path, run=run, count=4, seconds=60)) as script:
        waiting.until(lambda: (tmp_path / "began").exists())
        script.kill()
    with scripts.started(tmp_path, text) as script:
        ended = script.end()
    # The work itself differs (it sleeps less), so the call is refused for that and not for the lock.
    assert "in use" not in ended.err
    assert os.path.exists(run / "lock")
