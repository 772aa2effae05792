"""`tenfold.map` as it is called: arguments that cannot work are refused together, and engines are chosen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import engines, errors


async def later(x: int) -> int:
    return x


def several(x: int) -> Iterator[int]:
    yield x


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({"task": 5}, ["task=5", "expected a function"]),
        ({"items": 7}, ["items=7", "range(7)"]),
        ({"retries": -1}, ["retries=-1", "0 or above"]),
        ({"retries": 1.5}, ["retries=1.5"]),
        ({"retries": True}, ["retries=True"]),
        ({"on_error": "ignore"}, ["on_error='ignore'", "'raise', 'collect', 'stop'"]),
        ({"seed": -3}, ["seed=-3"]),
        ({"seed": "a"}, ["seed='a'"]),
        ({"seed": None}, ["seed=None"]),
        ({"cpus": 0}, ["cpus=0"]),
        ({"cpus": 1.5}, ["cpus=1.5"]),
        ({"cpus": float("nan")}, ["cpus=nan"]),
        ({"gpus": -1}, ["gpus=-1"]),
        ({"memory": "a lot"}, ["memory='a lot'", '"2GB"']),
        ({"memory": 0}, ["memory=0"]),
        ({"workers": 0}, ["workers=0"]),
        ({"workers": 2.0}, ["workers=2.0"]),
        ({"timeout": 0}, ["timeout=0"]),
        ({"timeout": -1}, ["timeout=-1"]),
        ({"timeout": float("nan")}, ["timeout=nan"]),
        ({"timeout": "1 h"}, ["timeout='1 h'"]),
        ({"isolate": "yes"}, ["isolate='yes'"]),
        ({"engine": "spark"}, ["engine='spark'", "there are"]),
        ({"engine": 3}, ["engine=3"]),
        ({"engine": ""}, ["engine=''"]),
        ({"fresh": True}, ["fresh=True", "run="]),
        ({"run": 7}, ["run=7"]),
        ({"run": "a\0b"}, ["run="]),
        ({"run": ""}, ["run=''"]),
        ({"retries": -1, "seed": -1, "on_error": "?"}, ["retries=-1", "seed=-1", "on_error='?'"]),
        (
            {"cpus": -1, "gpus": -1, "memory": "", "workers": 0, "timeout": -3, "isolate": 1, "items": 7},
            ["cpus=-1", "gpus=-1", "memory=''", "workers=0", "timeout=-3", "isolate=1", "items=7"],
        ),
        ({"task": later}, ["task=later", "it is async, so", "asyncio.run(later(item))"]),
        ({"task": several}, ["task=several", "list(several(item))"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_work_is_refused_before_any_work(
    arguments: dict[str, Any], texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def touch(x: int) -> None:
        (tmp_path / "touched").touch()

    call = {"task": touch, "items": [1], **arguments}
    with pytest.raises(errors.BadCall) as caught:
        tenfold.map(call.pop("task"), call.pop("items"), **call)
    for text in texts:
        assert text in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert list(tmp_path.iterdir()) == []


def test_use_chooses_the_engine_for_a_block() -> None:
    import os

    with tenfold.use("serial"):
        assert tenfold.map(lambda _: os.getpid(), [0])[:] == [os.getpid()]
        with tenfold.use("local", workers=1):
            results = tenfold.map(lambda _: os.getpid(), range(5))
            assert results[0] != os.getpid()
            assert results.workers == 1
            assert tenfold.map(lambda _: os.getpid(), [0], engine="serial")[:] == [os.getpid()]
        assert tenfold.map(lambda _: os.getpid(), [0])[:] == [os.getpid()]
    assert tenfold.map(lambda _: os.getpid(), [0])[0] != os.getpid()


def test_use_ends_with_its_block_also_when_that_raises() -> None:
    with pytest.raises(KeyError), tenfold.use("serial"):
        raise KeyError
    assert tenfold.map(abs, [-1]).workers >= 1
    with pytest.raises(errors.BadCall, match="no such engine"), tenfold.use("abacus"):
        pass


def test_use_is_for_its_own_thread() -> None:
    found: list[str] = []

    def call() -> None:
        import os

        found.append("same" if tenfold.map(lambda _: os.getpid(), [0])[0] == os.getpid() else "other")

    with tenfold.use("serial"):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert found == ["other"]


def test_the_environment_chooses_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("TENFOLD_ENGINE", "serial")
    assert tenfold.map(lambda _: os.getpid(), [0])[:] == [os.getpid()]
    assert tenfold.map(lambda _: os.getpid(), [0], engine="local")[0] != os.getpid()
    monkeypatch.setenv("TENFOLD_ENGINE", "abacus")
    with pytest.raises(errors.BadCall, match="TENFOLD_ENGINE='abacus'"):
        tenfold.map(abs, [0])


def test_an_engine_may_be_given_as_an_object() -> None:
    import os

    assert tenfold.map(lambda _: os.getpid(), [0], engine=engines.find("serial"))[:] == [os.getpid()]


def test_importing_tenfold_imports_no_framework(tmp_path: Path) -> None:
    text = """
        import sys
        import tenfold
        heavy = ("tensorflow", "torch", "jax", "keras", "sklearn", "joblib", "pandas", "numpy", "rich", "cloudpickle")
        print([name for name in heavy if name in sys.modules])
    """
    assert scripts.run(tmp_path, text).out == "[]\n"


def test_serial_tasks_can_be_debugged_and_write_to_the_callers_objects() -> None:
    found: list[int] = []
    tenfold.map(found.append, range(4), engine="serial")
    assert found == [0, 1, 2, 3]
