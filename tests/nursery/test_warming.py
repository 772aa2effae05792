"""A nursery that waits for the next scripts: for its owner only, and only where imports would be the same."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scripts
import waiting
from tenfold.errors import RunUnusable
from tenfold.nursery import warming


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets whose name is short: 107 characters are the most."""
    with tempfile.TemporaryDirectory(prefix="w-") as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name) / "tenfold"
        warming.stop()


def started(**options: Any) -> dict[str, Any]:
    return warming.start(options.get("modules", []), options.get("minutes", 1.0))


# -- where and which --------------------------------------------------------------------------------------------------


def test_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/5")
    assert warming.folder() == Path("/run/user/5/tenfold")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert warming.folder() == Path(f"/tmp/tenfold-{os.getuid()}")


def test_the_key_is_the_same_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before = warming.key()
    monkeypatch.setenv("EDITOR", "ed")
    assert warming.key() == before


@pytest.mark.parametrize("name", ["TF_ENABLE_ONEDNN_OPTS", "KERAS_BACKEND", "JAX_ENABLE_X64", "CUDA_VISIBLE_DEVICES"])
def test_the_key_differs_where_an_import_would(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name, raising=False)
    before = warming.key()
    monkeypatch.setenv(name, "1")
    assert warming.key() != before


def test_another_interpreter_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = warming.key()
    monkeypatch.setattr("sys.executable", "/opt/other/python")
    assert warming.key() != before


# -- a real one -------------------------------------------------------------------------------------------------------


def test_nobody_waits(place: Path) -> None:
    assert warming.connect() is None
    assert warming.stop() == 0


def test_it_waits_and_is_used_and_stopped(place: Path, tmp_path: Path) -> None:
    state = started(modules=["colorsys", "no_such_module"])
    assert "colorsys" in state["imported"]
    assert "no_such_module" in state["failed"]
    (path,) = place.glob("*.socket")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    again = started(modules=["wave"])  # the one that waits is asked, no second one is started
    assert again["pid"] == state["pid"]
    assert {"colorsys", "wave"} <= set(again["imported"])
    ended = scripts.run(
        tmp_path,
        """
        from tenfold.nursery import client
        from tenfold.nursery.wire import Wire
        end = client.get().session()
        (_, state), _ = Wire(end).receive()
        print(state["pid"])
        """,
    )
    assert int(ended.out) == state["pid"]
    assert waiting.lives(state["pid"])  # it outlives the script
    assert warming.stop() == 1
    waiting.for_exit(state["pid"])
    assert list(place.glob("*.socket")) == []
    assert warming.connect() is None


def test_it_goes_when_nobody_has_come_for_long(place: Path) -> None:
    state = started(minutes=0.01)
    waiting.for_exit(state["pid"])
    waiting.until(lambda: not list(place.glob("*.socket")), what="the end of the socket")


def test_a_killed_one_leaves_a_socket_that_is_no_trouble(place: Path) -> None:
    import signal

    state = started()
    os.kill(state["pid"], signal.SIGKILL)
    waiting.for_exit(state["pid"])
    assert list(place.glob("*.socket"))
    assert warming.connect() is None
    again = started()
    assert again["pid"] != state["pid"]


# -- for its owner only -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_enter(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(RunUnusable, match="others can enter it"):
        started()
    assert warming.connect() is None
    assert warming.stop() == 0


def test_a_link_in_the_place_of_the_folder(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "somebody-elses"
    target.mkdir(mode=0o700)
    place.symlink_to(target)
    with pytest.raises(RunUnusable):
        started()
    assert warming.connect() is None


def test_a_socket_in_a_folder_that_others_can_enter_is_not_used(place: Path) -> None:
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place / f"{warming.key()}.socket"))
        listener.listen(1)
        found = warming.connect()
        assert found is not None
        found.close()
        place.chmod(0o755)
        assert warming.connect() is None


def test_the_other_side_is_the_same_user(place: Path) -> None:
    ours, theirs = socket.socketpair()
    assert warming._same_user(ours)
    ours.close()
    theirs.close()
