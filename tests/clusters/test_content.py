"""Large content on a node: what the caller of this machine has is not kept, and of what was sent only the latest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenfold.engines.cluster import content
from tenfold.engines.cluster.content import Notice
from tenfold.nursery import warming


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is too long for a place of sockets
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield warming.place()
        content.forget()
        assert not list(warming.place().glob("content-*"))


def memory(data: bytes) -> int:
    handle = os.memfd_create("tenfold")
    os.write(handle, data)
    return handle


def read(notice: Notice) -> bytes:
    handle = content.take(notice)
    try:
        return os.pread(handle, notice.size, 0)
    finally:
        os.close(handle)


def send(data: bytes) -> Notice:
    """To a node that is not on the caller's machine."""
    handle = memory(data)
    notice = replace(content.announce(handle, travels=True), host="elsewhere")
    assert not content.has(notice)
    for start, chunk in content.chunks(handle):
        content.add(notice, start, chunk)
    os.close(handle)
    return notice


def test_what_the_caller_has_is_opened_and_not_kept() -> None:
    handle = memory(b"the caller's")
    notice = content.announce(handle, travels=False)
    assert content.has(notice)
    assert read(notice) == b"the caller's"
    os.close(handle)
    assert not content.has(notice)


def test_of_what_was_sent_the_latest_are_kept(place: Path) -> None:
    notices = [send(bytes([n]) * 100_000) for n in range(4)]
    assert [content.has(notice) for notice in notices] == [False, False, True, True]
    assert read(notices[3]) == bytes([3]) * 100_000
    assert len(list(place.glob("content-*"))) == content.KEPT


def test_what_is_in_use_outlives_what_replaces_it() -> None:
    notice = send(b"first")
    handle = content.take(notice)
    for n in range(content.KEPT):
        send(bytes([n]))
    assert os.pread(handle, 5, 0) == b"first"
    os.close(handle)
    with pytest.raises(FileNotFoundError, match="was not sent"):
        content.take(notice)
