"""JSON for programs, and words for people."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest

from tenfold.cli import say


@dataclass
class Point:
    x: int
    where: Path


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def in_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": (1, 2.5, None, True, "x")}, {"a": [1, 2.5, None, True, "x"]}),
        ({1: 2}, {"1": 2}),
        (float("nan"), None),
        ([float("inf")], [None]),
        (numpy.float32(0.5), 0.5),
        (numpy.float64("nan"), None),
        (numpy.int64(3), 3),
        (numpy.array([[1, 2]]), [[1, 2]]),
        (numpy.array([1.0, numpy.nan]), [1.0, None]),
        (numpy.zeros((40, 50), "float32"), {"shape": [40, 50], "dtype": "float32"}),
        (Path("a/b"), "a/b"),
        (Point(1, Path("c")), {"x": 1, "where": "c"}),
        (Point, "<class 'test_cli_say.Point'>"),
        (b"x", "b'x'"),
        (Odd(), "<Odd, whose repr raised RuntimeError>"),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    assert say.plain(value) == expected
    json.dumps(say.plain(value), allow_nan=False)


def test_a_list_that_holds_itself_ends() -> None:
    assert json.dumps(say.plain(in_itself()))


def emitted(result: dict[str, Any]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        say.emit(result)
    return json.loads(out.getvalue())


def test_emit_writes_one_object() -> None:
    assert emitted({}) == {}
    assert emitted({"a": 1, "b": iter([1, {"c": 2}]), "d": iter(())}) == {"a": 1, "b": [1, {"c": 2}], "d": []}


def test_emit_holds_one_item_at_a_time() -> None:
    alive = 0

    class Item:
        def __init__(self) -> None:
            nonlocal alive
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def items() -> Iterator[Any]:
        nonlocal most
        for _ in range(100):
            yield Item()
            most = max(most, alive)

    assert len(emitted({"items": items()})["items"]) == 100
    assert most <= 2


def test_stdout_is_kept_for_json_from_python_c_and_children() -> None:
    code = """
import os, sys
from tenfold.cli import say
with say.stdout_for_json(True):
    print("python")
    os.write(1, b"c\\n")
    os.system("echo child")
say.emit({"a": 1})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"a": 1}
    assert sorted(done.stderr.split()) == ["c", "child", "python"]


def test_stdout_is_left_alone_where_no_json_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    with say.stdout_for_json(False):
        os.write(1, b"x\n")
    assert capfd.readouterr().out == "x\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (-10, "just now"),
        (10.5, "10 seconds ago"),
        (61, "1 minute ago"),
        (7300, "2 hours ago"),
        (3e5, "3 days ago"),
    ],
)
def test_ago(seconds: float, text: str) -> None:
    assert say.ago(time.time() - seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.00123, "1.2 ms"), (0.5, "0.5 s"), (75, "1 min 15 s")])
def test_took(seconds: float, text: str) -> None:
    assert say.took(seconds) == text


def test_brackets_and_colons_of_a_user_are_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = say.table("[red]name", "value")
    table.add_row("[bold]x[/bold]", ":smile: [0]")
    say.show(table)
    assert {"[bold]x[/bold]", ":smile: [0]", "[red]name"} <= {
        part.strip() for line in capsys.readouterr().out.splitlines() for part in line.split("   ")
    }
