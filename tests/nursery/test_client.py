"""The caller's nursery: started when it is needed, told what to import, gone with its owner. Real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scripts
import waiting
from tenfold.errors import WorkersUnavailable
from tenfold.frameworks.numpy import THREAD_VARIABLES
from tenfold.nursery import client, warming
from tenfold.nursery.wire import Closed, Wire


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Iterator[client.Client]:
    """A nursery of its own for each test; the one of the process, where there is one, is put aside."""
    monkeypatch.setattr(client, "_current", None)
    monkeypatch.setattr(warming, "connect", lambda: None)
    found = client.get()
    yield found
    if client._current is not None:
        client.drop(client._current)


def state(found: client.Client) -> dict[str, object]:
    """What the nursery says of itself when it is asked: after everything that it was to import ahead."""
    end = found.session()
    end.settimeout(20)
    wire = Wire(end)
    try:
        wire.receive()
        wire.send(("state",))
        (kind, told), _ = wire.receive()
        assert kind == "nursery"
        return dict(told)
    finally:
        wire.close()


def test_there_is_one(nursery: client.Client) -> None:
    assert client.get() is nursery
    assert nursery.alive
    assert nursery.owner == os.getpid()


def test_modules_are_imported_ahead(nursery: client.Client) -> None:
    nursery.preload(["colorsys", "no_such_module", "wave"])
    told = state(nursery)
    assert set(told["imported"]) == {"colorsys", "wave"}  # type: ignore[call-overload]
    assert "ModuleNotFoundError" in told["failed"]["no_such_module"]  # type: ignore[index]
    assert told["unsafe"] is None


def test_a_session_waits_for_its_own_modules_only(nursery: client.Client, tmp_path: Path) -> None:
    go, second = tmp_path / "go", tmp_path / "second"
    (tmp_path / "waits.py").write_text(
        f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.005)\n"
    )
    (tmp_path / "comes_later.py").write_text(f"import pathlib\npathlib.Path({str(second)!r}).touch()\n")
    client.drop(nursery)
    sys.path.insert(0, str(tmp_path))
    try:
        found = client.get()
        found.preload(["waits", "comes_later"])
        end = found.session(["colorsys"])
        go.touch()
        end.settimeout(20)
        with contextlib.closing(Wire(end)) as wire:
            (_, told), _ = wire.receive()
            assert set(told["imported"]) <= {"waits", "colorsys"}
            assert "colorsys" in told["imported"]
            assert not second.exists()
        waiting.until(second.exists, what="an import when the session is over")
    finally:
        sys.path.remove(str(tmp_path))


def test_an_import_that_starts_a_thread_makes_it_unsafe(nursery: client.Client, tmp_path: Path) -> None:
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    client.drop(nursery)
    sys.path.insert(0, str(tmp_path))
    try:
        found = client.get()
        found.preload(["starts_a_thread"])
        assert "1 threads" in str(state(found)["unsafe"])
    finally:
        sys.path.remove(str(tmp_path))


def test_an_import_that_exits_does_not_end_it(nursery: client.Client, tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    client.drop(nursery)
    sys.path.insert(0, str(tmp_path))
    try:
        found = client.get()
        found.preload(["exits", "wave"])
        told = state(found)
        assert "SystemExit" in told["failed"]["exits"]  # type: ignore[index]
        assert "wave" in told["imported"]  # type: ignore[operator]
    finally:
        sys.path.remove(str(tmp_path))


def test_what_it_printed_can_be_read(nursery: client.Client, tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text("import sys\nprint('imported', flush=True)\nprint('oh', file=sys.stderr)\n")
    client.drop(nursery)
    sys.path.insert(0, str(tmp_path))
    try:
        found = client.get()
        found.preload(["prints"])
        state(found)
        assert found.written() == "imported\noh\n"
    finally:
        sys.path.remove(str(tmp_path))


def test_a_killed_one_is_replaced(nursery: client.Client) -> None:
    first = int(str(state(nursery)["pid"]))
    os.kill(first, signal.SIGKILL)
    waiting.until(lambda: not nursery.alive, what="the end of the nursery")
    again = client.get()
    assert again is not nursery
    assert state(again)["pid"] != first


def test_a_session_with_a_dead_one(nursery: client.Client) -> None:
    os.kill(int(str(state(nursery)["pid"])), signal.SIGKILL)
    waiting.until(lambda: not nursery.alive, what="the end of the nursery")
    with pytest.raises(Closed):
        nursery.session()


def test_dropped_it_is_gone(nursery: client.Client) -> None:
    pid = int(str(state(nursery)["pid"]))
    client.drop(nursery)
    waiting.for_exit(pid)
    assert client._current is None


@pytest.mark.parametrize("ending", ["", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "1 / 0"])
def test_it_goes_with_its_caller(tmp_path: Path, ending: str) -> None:
    with scripts.started(
        tmp_path,
        f"""
        import os, pathlib, signal
        from tenfold.nursery import client
        from tenfold.nursery.wire import Wire
        end = client.get().session()
        (_, state), _ = Wire(end).receive()
        pathlib.Path("pid").write_text(str(state["pid"]))
        {ending}
        """,
        {"XDG_RUNTIME_DIR": str(tmp_path)},
    ) as script:
        script.end()
    waiting.for_exit(int((tmp_path / "pid").read_text()))


def test_a_forked_copy_of_the_caller_does_not_end_it(nursery: client.Client) -> None:
    """multiprocessing's fork copies our objects; only their owner may use or end them."""
    child = os.fork()
    if child == 0:
        alive = nursery.alive
        os._exit(1 if alive else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert nursery.alive
    assert state(nursery)["pid"]


def test_an_interpreter_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which one, and leaves no descriptor behind."""
    monkeypatch.setattr(client, "_current", None)
    monkeypatch.setattr(warming, "connect", lambda: None)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(WorkersUnavailable, match="/no/such/python"):
        client.get()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_its_environment_has_one_thread_and_ours_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    found = client.environment()
    assert {found[name] for name in THREAD_VARIABLES} == {"1"}
    assert found["PYTHONHASHSEED"] == "5"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.delenv("PYTHONHASHSEED")
    assert client.environment()["PYTHONHASHSEED"] == "0"


def test_the_command_runs_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')\n")
    monkeypatch.chdir(tmp_path)
    out = subprocess.check_output(client.command("import json; print(json.dumps(1))"), text=True)
    assert out == "1\n"


def test_sessions_are_independent(nursery: client.Client) -> None:
    first, second = nursery.session(), nursery.session()
    for end in (first, second):
        end.settimeout(20)
    assert Wire(first).receive()[0][0] == "nursery"
    first.close()
    wire = Wire(second)
    assert wire.receive()[0][0] == "nursery"
    wire.send(("state",))
    assert wire.receive()[0][0] == "nursery"  # the end of the first was not its end
    wire.close()
