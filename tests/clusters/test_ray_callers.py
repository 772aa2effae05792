"""Ray: a caller that is killed leaves nothing behind, and its run continues; one that starts Ray in a thread."""

from __future__ import annotations

import time
from pathlib import Path

import ray_clusters

import leftovers
import scripts
import waiting

_WORK = """
    import json, os, pathlib, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def work(x):
        (folder / f"began {{x}}").touch()
        if x >= 6 and not (folder / "go").exists():
            time.sleep(300)
        with open(folder / f"ended {{x}}", "a") as file:
            file.write("ended\\n")
        return x * 10 + round(tenfold.here().rng.random(), 6)

    results = tenfold.map(work, range(10), run={run!r}, engine={engine!r})
    print(json.dumps(list(results)))
"""


def _folders() -> set[Path]:
    return set(Path("/tmp").glob("tfr-*"))


def _ended(folder: Path) -> dict[int, int]:
    return {int(path.name.split()[1]): len(path.read_text().splitlines()) for path in folder.glob("ended *")}


def test_a_killed_caller_leaves_nothing_and_its_run_continues(tmp_path: Path) -> None:
    text = _WORK.format(folder=str(tmp_path), run=str(tmp_path / "run"), engine="ray")
    before = _folders()
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(list(tmp_path.glob("began *"))) == 8 or script.process.poll() is not None, 60)
        assert script.process.poll() is None, script.err
        assert ray_clusters.processes(script.pid)
        ours = {folder for folder in _folders() - before if _is_used_below(script.pid, folder)}
        time.sleep(0.6)  # until what has ended is committed
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 10, "the end of all processes")
    waiting.until(lambda: not leftovers.files(), 10, f"the end of {leftovers.files()}")
    waiting.until(lambda: not ours & _folders(), 10, f"the end of Ray's folder {ours}")
    assert len(ours) == 1

    assert _ended(tmp_path) == dict.fromkeys(range(6), 1)
    (tmp_path / "go").touch()
    again = scripts.run(tmp_path, text)
    assert _ended(tmp_path) == dict.fromkeys(range(10), 1)
    other = scripts.run(tmp_path, _WORK.format(folder=str(tmp_path), run=None, engine="serial"))
    assert again.out.splitlines()[-1] == other.out.splitlines()[-1]


def _is_used_below(pid: int, folder: Path) -> bool:
    commands = [Path(f"/proc/{child}/cmdline") for child in scripts.descendants(pid)]
    return any(str(folder).encode() in command.read_bytes() for command in commands if command.exists())


def test_ray_started_in_a_thread_that_has_ended(tmp_path: Path) -> None:
    """The kernel ends Ray's processes with the thread that started them."""
    text = """
        import threading, time
        import tenfold

        thread = threading.Thread(target=lambda: tenfold.map(abs, [-1], engine="ray"))
        thread.start()
        thread.join()
        time.sleep(0.5)
        print(list(tenfold.map(abs, [-2], engine="ray")))
    """
    assert scripts.run(tmp_path, text, seconds=40).out.splitlines()[-1] == "[2]"


_AHEAD = """
    import sys
    import tenfold
    import sklearn
    from tenfold.engines.cluster import ray_joining

    assert ray_joining._process is not None and "ray" not in sys.modules
    if sys.argv[0].endswith("/used.py"):
        print(list(tenfold.map(abs, [-1, 2])), tenfold.map(abs, [3]).workers)
    else:
        print(ray_joining._process._process.pid)
"""


def test_a_cluster_is_begun_ahead_and_ends_used_or_not(tmp_path: Path) -> None:
    variables, before = {"TENFOLD_ENGINE": "ray"}, _folders()
    with scripts.started(tmp_path, _AHEAD, variables, "unused") as script:
        ended = script.end()
    assert ended.status == 0, ended.err
    assert not Path(f"/proc/{int(ended.out)}").exists()
    with scripts.started(tmp_path, _AHEAD, variables, "used") as script:
        ended = script.end()
    assert ended.out.startswith("[1, 2] "), ended.err
    waiting.until(lambda: not leftovers.processes(), 5, "the end of all processes")
    assert _folders() <= before
