"""`tenfold doctor`: what it finds here, and on machines that are not here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import calls
import pytest
from calls import Run

from tenfold import engines, frameworks
from tenfold.cli import examine
from tenfold.cli.examine import Trial
from tenfold.errors import WorkersUnavailable
from tenfold.frameworks import Framework
from tenfold.nursery import warming

FINE = Trial(True, "", {"numpy": 0.5, "torch": 0.0001}, {"keras": "ImportError: no backend"})


class Small(Framework):
    def __init__(self, module: str) -> None:
        self.modules = (module,)
        self.distributions = ("numpy",)


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Pretend that these modules are the frameworks; each is a file with this text."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def pretend(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(frameworks, "every", lambda: {name: Small(name) for name in texts})

    return pretend


def test_here(tmp_path: Path) -> None:
    """The real thing, with the smallest framework that is installed everywhere."""
    code = "import sys; from tenfold import frameworks; import tenfold.frameworks.numpy as n; "
    code += "frameworks.every = lambda: {'numpy': n.Member()}; sys.argv = ['tenfold', 'doctor', '--json']; "
    code += "from tenfold.cli import main; main()"
    ended = calls.python(tmp_path, code)
    assert ended.status == 0, ended.err
    found = ended.json
    assert found["cores"]["usable"] <= found["cores"]["machine"] == os.cpu_count()
    assert 0 < found["memory"]["usable"] <= found["memory"]["machine"]
    assert set(found["frameworks"]) == {"numpy"}
    assert found["frameworks"]["numpy"]["import_seconds"] > 0
    assert set(found["engines"]) == set(engines.names())
    assert found["fork"] == {"safe": True, "reason": ""}
    assert 0 < found["workers"]["next"] < found["workers"]["first"]
    assert found["warm"] == {"waiting": False}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a nursery nor workers."""
    monkeypatch.setattr(examine, "try_nursery", lambda tell: FINE)
    monkeypatch.setattr(examine, "time_workers", lambda: {"first": 0.25, "next": 0.012, "error": ""})
    monkeypatch.setattr(warming, "state", lambda: None)


def lines(text: str) -> dict[str, str]:
    """First column -> the rest of the row, with single spaces."""
    rows = [line.split("   ") for line in text.splitlines() if "   " in line]
    return {row[0].strip(): " ".join(" ".join(row[1:]).split()) for row in rows}


@pytest.mark.usefixtures("quick")
def test_the_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"numpy": "2.4", "keras": "3.1", "torch": "2.9"}
    monkeypatch.setattr("tenfold.machine.installed.version", lambda *names: versions.get(names[0]))
    monkeypatch.setenv("TENFOLD_GPUS", "2")
    result = run("doctor")
    found = lines(result.stdout)
    assert found["GPU 1"] == "17.2 GB pretended (TENFOLD_GPUS)"
    assert found["numpy"] == "2.4 imported in 0.5 s"
    assert found["torch"] == "2.9 imported with those above"
    assert found["keras"] == "3.1 cannot be imported: ImportError: no backend"
    assert found["jax"] == 'not installed pip install "tenfold[jax]"'
    assert found["engine local"] == "ready"
    assert found["engine joblib"] == 'not installed pip install "tenfold[joblib]"'
    assert found["workers"].startswith(
        "12.0 ms a call with 2 tasks; the first call of a script, which starts a nursery"
    )
    assert found["forked workers"] == "safe with every installed framework imported"
    assert found["warm nursery"].startswith("none")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("mask", "quota", "told"),
    [
        (8, None, "8 all that the machine has"),
        (4, None, "4 the machine has 8; limited by the affinity of this process (4)"),
        (8, 2.5, "2.5 the machine has 8; limited by the CPU quota of its cgroup (2.5)"),
        (4, 2.0, "2 the machine has 8; limited by the CPU quota of its cgroup (2)"),
        (2, 4.0, "2 the machine has 8; limited by the affinity of this process (2)"),
    ],
)
def test_which_limit_it_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, mask: int, quota: float | None, told: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("tenfold.machine.cores.affinity", lambda: tuple(range(mask)))
    monkeypatch.setattr("tenfold.machine.cores.quota", lambda: quota)
    assert lines(run("doctor").stdout)["cores"] == told


@pytest.mark.usefixtures("quick")
def test_a_warm_nursery_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "state", lambda: {"pid": 77, "imported": {"torch": 1.0}})
    assert lines(run("doctor").stdout)["warm nursery"] == "waiting process 77, with torch"

    def busy() -> Any:
        raise WorkersUnavailable("it is still importing")

    monkeypatch.setattr(warming, "state", busy)
    assert lines(run("doctor").stdout)["warm nursery"] == "waiting it is still importing"


@pytest.mark.usefixtures("quick")
def test_no_workers_is_a_fault(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "time_workers", lambda: {"first": None, "next": None, "error": "they died"})
    result = run("doctor")
    assert result.exit_code == 1
    assert lines(result.stdout)["workers"] == "none they died"


def test_workers_that_cannot_be_started_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise WorkersUnavailable("they died")

    monkeypatch.setattr("tenfold.map", refuse)
    assert examine.time_workers() == {"first": None, "next": None, "error": "they died"}


# -- the nursery on trial ---------------------------------------------------------------------------------------


def test_each_framework_is_told_by_itself(members: Callable[..., None]) -> None:
    members(fine_one="", broken_one="raise ImportError('libcudart is missing')", fine_two="")
    told: list[str] = []
    found = examine.try_nursery(told.append)
    assert found.forks
    assert found.failed == {"broken_one": "ImportError: libcudart is missing"}
    assert list(found.seconds) == ["fine_one", "broken_one", "fine_two"]
    assert told == [f"importing {name} in a nursery" for name in found.seconds]


def test_the_framework_that_starts_threads_is_named(members: Callable[..., None]) -> None:
    threads = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    members(fine_one="", threaded=threads, fine_two="")
    found = examine.try_nursery(lambda text: None)
    assert not found.forks
    assert found.reason.startswith("after threaded: an import has started 1 thread")


def test_a_nursery_that_dies_is_told_with_its_last_words(members: Callable[..., None]) -> None:
    members(deadly="import os, sys\nprint('illegal instruction', file=sys.stderr, flush=True)\nos._exit(4)\n")
    found = examine.try_nursery(lambda text: None)
    assert found.reason == "the nursery died while it imported deadly: illegal instruction"


def test_an_import_that_does_not_end(members: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    members(endless="import threading\nthreading.Event().wait(60)\n")
    monkeypatch.setattr(examine, "IMPORT_LIMIT", 0.5)
    assert examine.try_nursery(lambda text: None).reason == "endless was not imported within 0.5 s"


def test_where_workers_are_spawned_no_nursery_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_START", "spawn")
    assert examine.try_nursery(lambda text: None).reason == "TENFOLD_START=spawn"
    monkeypatch.setattr("sys.platform", "darwin")
    assert examine.try_nursery(lambda text: None).reason.startswith("fork is not safe on ")


def test_the_packages_of_an_extra_are_read_from_our_own_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["click>=8", 'ray[default]>=2; extra == "ray"', "grpcio ; extra=='ray'", "raylib; extra == 'rayx'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    assert examine._extra_packages("ray") == ("ray", "grpcio")
    assert examine._extra_packages("local") == ()
