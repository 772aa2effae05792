"""`--items` and `--set`: what was typed, as Python values."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenfold.cli import given
from tenfold.errors import BadCall
from tenfold.journal import fingerprint


def test_lines_are_values_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('\ufeff{"lr": 0.1}\n\n  \n[1, 2]\r\n"text ü"\nnull', encoding="utf-8")
    items = given.items(str(path))
    assert list(items) == [{"lr": 0.1}, [1, 2], "text ü", None]
    assert list(items) == list(items)
    assert len(items) == 4  # type: ignore[arg-type]


def test_a_bad_line_is_told_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("1\n2\n{x\n")
    with pytest.raises(
        BadCall, match=r"items.jsonl', line 3: '\{x' is not JSON \(.*; expected one JSON value per line"
    ):
        given.items(str(path))


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadCall, match=f"--items '{name}' cannot be read: "):
        given.items(name)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'"\xff\xfe"\n')
    with pytest.raises(BadCall, match=r"cannot be read: .*utf-8"):
        given.items(str(tmp_path / "x"))


def test_stdin_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO("1\n2\nx\n")
    monkeypatch.setattr("sys.stdin", lines)
    items = iter(given.items("-"))
    assert next(items) == 1
    assert lines.tell() < 4 + len("x\n")
    assert next(items) == 2
    with pytest.raises(BadCall, match="--items 'stdin', line 3"):
        next(items)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", 0.01),
        ("3", 3),
        ("true", True),
        ("True", True),
        ("null", None),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("(1, 2)", (1, 2)),
        ('{"a": 1}', {"a": 1}),
        ("relu", "relu"),
        ("'3'", "3"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_values_are_json_then_python_then_text(text: str, value: Any) -> None:
    assert given.settings([f"name={text}"]) == {"name": value}


def test_all_bad_settings_are_told_at_once() -> None:
    with pytest.raises(BadCall, match=r"--set 'lr': expected name=value, such as lr=0.01; --set '2x=1': expected"):
        given.settings(["lr", "2x=1", "fine=1"])


def train(item: int, lr: float = 0.1, *, width: int = 8) -> tuple[int, float, int]:
    return item, lr, width


def test_settings_are_keywords_and_the_name_stays() -> None:
    found = given.with_settings(train, {"lr": 1.0, "width": 2})
    assert found(5) == (5, 1.0, 2)
    assert fingerprint.name_of(found) == "train"
    assert given.with_settings(train, {}) is train


def two(a: int, b: int) -> None: ...


def none() -> None: ...


@pytest.mark.parametrize(
    ("task", "settings", "told"),
    [
        (train, {"lrr": 3}, r"train\(item: .* cannot be called with one item and lrr=3: got an unexpected keyword"),
        (two, {}, "cannot be called with one item: missing a required argument: 'b'"),
        (two, {"a": 1}, "cannot be called with one item and a=1: multiple values for argument 'a'"),
        (none, {}, "cannot be called with one item: too many positional arguments"),
    ],
)
def test_a_function_that_does_not_take_them(task: Callable[..., Any], settings: dict[str, Any], told: str) -> None:
    with pytest.raises(BadCall, match=told):
        given.with_settings(task, settings)


def test_a_function_without_a_signature_is_taken_as_it_is() -> None:
    assert given.with_settings(max, {}) is max
