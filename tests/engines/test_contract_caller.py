"""The contract of every engine: the caller's process is as it was, and what cannot be kept is refused."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import errors
from tenfold.plan.choose import Abilities

# All that needs a caller with nothing in it but the call: one script for each engine, because Ray starts slowly.
_SCRIPT = """
    import joblib, numpy, os  # joblib sets a variable of its own
    variables = dict(os.environ)
    import json, pathlib, signal, sys, threading
    from dataclasses import dataclass
    import tenfold

    engine, found = {engine!r}, {{}}

    def write(x):
        seen = dict(os.environ)
        here = tenfold.here()
        return here.index

    assert tenfold.map(write, range(4), engine=engine, cpus=1)[:] == [0, 1, 2, 3]
    found["variables"] = sorted(set(variables.items()) ^ set(os.environ.items()))

    import threadpoolctl  # sets a variable, unlike tenfold, which imports it too

    def state():
        return (
            [(pool["filepath"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()],
            os.sched_getaffinity(0), os.getcwd(), list(sys.path), list(sys.argv), signal.getsignal(signal.SIGALRM),
            [type(finder).__name__ for finder in sys.meta_path], signal.getsignal(signal.SIGINT),
        )

    before = state()
    tenfold.map(lambda x: numpy.linalg.norm(numpy.ones((50, 50)) @ numpy.ones((50, 50))), range(4), engine=engine)
    after = state()
    found["state"] = [] if before == after else [repr(before), repr(after)]

    @dataclass
    class Point:
        x: int

    def move(point):
        return Point(point.x + OFFSET)

    OFFSET = 10
    print("the script runs")
    results = tenfold.map(move, [Point(1), Point(2)], engine=engine)
    found["points"] = [results[:] == [Point(11), Point(12)], type(results[0]) is Point]

    def talk(x):
        print(f"out {{x}}")
        print(f"err {{x}}", file=sys.stderr)
        os.write(1, f"raw {{x}}\\n".encode())
        print("no end of line", end="")

    tenfold.map(talk, range(3), engine=engine)
    tenfold.map(lambda x: print("\\nx" + "é" * 100_000), [1], engine=engine)
    pathlib.Path("found.json").write_text(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a script on one engine."""

    found: dict[str, Any]
    """What it found out by itself."""
    ended: scripts.Ended
    """What it wrote."""


@pytest.fixture(scope="session")
def script(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("caller")
    ended = scripts.run(folder, _SCRIPT.format(engine=engine), {"PYTHONIOENCODING": "utf-8"})
    return Told(json.loads((folder / "found.json").read_text()), ended)


def test_the_callers_environment_is_never_written(script: Told) -> None:
    assert script.found["variables"] == []


def test_the_callers_threads_folder_path_and_modules_are_as_they_were(script: Told) -> None:
    assert script.found["state"] == []


def test_functions_and_classes_of_a_script_without_a_main_guard(script: Told) -> None:
    assert script.ended.out.splitlines().count("the script runs") == 1
    assert script.found["points"] == [True, True]


def test_what_tasks_print_reaches_the_callers_stdout(script: Told) -> None:
    written = script.ended.out + script.ended.err
    for x in range(3):
        assert f"out {x}" in script.ended.out
        assert f"err {x}" in written
        assert f"raw {x}" in script.ended.out
    assert script.ended.out.count("no end of line") == 3


def test_text_beyond_ascii_arrives_whole(script: Told) -> None:
    assert "\nx" + "é" * 100_000 + "\n" in script.ended.out


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


@pytest.mark.usefixtures("two_gpus")
def test_gpus_are_leased_or_refused(engine: str, abilities: Abilities, tmp_path: Path) -> None:
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
