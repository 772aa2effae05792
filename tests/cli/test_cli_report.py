"""`tenfold report`: where it writes, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Run


def test_a_page_beside_the_run(run: Run, kept: Path) -> None:
    result = run("report", "runs/one")
    assert (result.exit_code, result.stdout) == (0, "runs/one/report.html\n")
    text = (kept / "runs" / "one" / "report.html").read_text()
    assert "3 of 4 tasks are done, 1 failed." in text
    assert "item 3, attempt 2, is bad" in text


@pytest.mark.parametrize(
    ("words", "name", "start"),
    [
        (("--format", "md"), "runs/one/report.md", b"# map of "),
        (("--format", "json"), "runs/one/report.json", b"{"),
        (("--format", "png"), "runs/one/report.png", b"\x89PNG"),
        (("--to", "x.md"), "x.md", b"# map of "),
        (("--to", "x.png"), "x.png", b"\x89PNG"),
        (("--to", "x"), "x", b"<!DOCTYPE html>"),
        (("--to", "x.txt", "--format", "md"), "x.txt", b"# map of "),
    ],
)
def test_other_files(run: Run, kept: Path, words: tuple[str, ...], name: str, start: bytes) -> None:
    result = run("report", "runs/one", *words)
    assert (result.exit_code, result.stdout) == (0, f"{name}\n")
    assert (kept / name).read_bytes().startswith(start)


def test_stdout(run: Run, kept: Path) -> None:
    assert run("report", "runs/one", "--to", "-").stdout.startswith("<!DOCTYPE html>")
    assert run("report", "runs/one", "--to", "-", "--format", "md").stdout.startswith("# map of ")
    found = json.loads(run("report", "runs/one", "--json").stdout)
    assert found["figures"]["failed"] == "1"
    assert not list((kept / "runs" / "one").glob("report.*"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nix",), "'nix' does not exist; runs nearby: runs/one"),
        (("runs",), "'runs' holds no run; runs nearby: runs/one"),
        (("runs/one", "--to", "-", "--format", "png"), "--to -: a picture is not written to stdout"),
        (("runs/one", "--to", "no/where.html"), "'no/where.html' cannot be written: No such file or directory"),
        (("runs/one", "--format", "pdf"), "'pdf' is not one of"),
        (("runs/one", "--to", "x.pdf"), "--to x.pdf: expected a name that ends with .html, .md, .json or .png"),
    ],
)
def test_what_is_refused(run: Run, kept: Path, words: tuple[str, ...], told: str) -> None:
    result = run("report", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
