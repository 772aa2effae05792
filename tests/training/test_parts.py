"""A checkpoint in parts counts when all of it is there, and whole."""

from __future__ import annotations

from pathlib import Path

from tenfold.training.parts import Parts


def opened(folder: Path) -> Parts:
    parts = Parts(folder, 2)
    parts.begin()
    return parts


def test_the_last_one_stays_until_the_next_is_whole(tmp_path: Path) -> None:
    parts = opened(tmp_path / "parts")
    assert parts.step == -1
    assert parts.body(0) is None
    parts.add(0, 5, b"first at 5")
    assert opened(tmp_path / "parts").step == -1
    parts.add(1, 5, b"second at 5")
    parts.add(1, 10, b"second at 10")  # and then the workers are lost
    again = opened(tmp_path / "parts")
    assert again.step == 5
    assert [again.body(rank) for rank in range(2)] == [b"first at 5", b"second at 5"]
    again.add(0, 10, b"first at 10, of another attempt")
    assert opened(tmp_path / "parts").step == 5, "parts of two attempts are no checkpoint"
    again.add(1, 10, b"second at 10, of another attempt")
    assert opened(tmp_path / "parts").body(1) == b"second at 10, of another attempt"
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["10-0", "10-1", "manifest"]


def test_a_torn_one_is_not_used(tmp_path: Path) -> None:
    for torn, keep in (("5-1", 3), ("5-0", 0), ("manifest", 20)):
        parts = opened(tmp_path / torn)
        for rank in range(2):
            parts.add(rank, 5, b"a part of the model")
        path = tmp_path / torn / torn
        path.write_bytes(path.read_bytes()[:keep])
        assert opened(tmp_path / torn).step == -1
    (tmp_path / "5-0" / "5-0").unlink()
    assert opened(tmp_path / "5-0").step == -1


def test_another_number_of_workers_cannot_go_on_from_it(tmp_path: Path) -> None:
    parts = opened(tmp_path)
    for rank in range(2):
        parts.add(rank, 5, b"a part of the model")
    other = Parts(tmp_path, 3)
    other.begin()
    assert other.step == -1


def test_nothing_is_kept_without_a_folder() -> None:
    parts = Parts(None, 1)
    parts.begin()
    parts.add(0, 5, b"all of the model")
    assert parts.body(0) is None
