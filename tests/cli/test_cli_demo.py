"""`tenfold demo`: the whole workflow with a few trials, and again from what is kept."""

from __future__ import annotations

import re
from pathlib import Path

import calls
import numpy
import pytest
from calls import Run

from tenfold.cli import digits
from tenfold.journal import records

STEPS = ["prepare", "tune", "train", "evaluate", "measure"]
SMALL = """
from tenfold.cli import digits, workflow
from tenfold.cli.commands import commands

digits.EPOCHS, workflow.SIZES, workflow.REPEATS = {epochs}, {sizes}, 1
commands({words}, prog_name="tenfold")
"""
"""The same command, with fewer epochs and smaller cells than anybody would look at."""


@pytest.mark.slow
def test_from_images_to_a_page_and_again_at_once(tmp_path: Path) -> None:
    words = ["demo", "--trials", "6", "--run", "runs/d"]
    first = calls.python(tmp_path, SMALL.format(epochs=9, sizes=(96, 192, 288), words=words))
    assert first.status == 0, first.err
    for step in STEPS:
        assert f"\n{step}" in first.out
        assert f"{step}: " in first.err
    assert "confusion, true in rows" in first.out
    assert "One by one is an estimate" in first.out
    assert "the page about it: runs/d/report.html" in first.out
    page = (tmp_path / "runs/d/report.html").read_text()
    assert page.count("<svg") > 3
    noise = [line for line in first.err.splitlines() if ": " not in line and not line.startswith("a few images")]
    assert noise == []
    with records.opened(tmp_path / "runs/d/tune") as journal:
        ways = {outcome.value.how.split(":")[0] for outcome in journal.outcomes()}
    assert ways == {"fused"}
    again = calls.python(tmp_path, SMALL.format(epochs=9, sizes=(96, 192, 288), words=[*words, "--json"])).json
    assert again["accuracy"] > 0.7
    assert [step["step"] for step in again["steps"]] == STEPS
    assert [step["one_by_one"] is not None for step in again["steps"]] == [True, True, True, False, False]
    assert all(step["kept"] for step in again["steps"])  # with what they took at first
    assert again["steps"][1]["seconds"] > 1
    assert re.search(r"[1-5] given up early", again["steps"][1]["what"])
    assert "Parameters and what came of them" in page
    assert "cells that the fit had not seen are predicted" in page.replace("&nbsp;", " ")


@pytest.mark.slow
def test_each_step_runs_on_the_engine(tmp_path: Path) -> None:
    words = ["demo", "--trials", "3", "--engine", "dask", "--run", "d", "--json"]
    ended = calls.python(tmp_path, SMALL.format(epochs=3, sizes=(96,), words=words))
    assert ended.status == 0, ended.err
    assert [step["step"] for step in ended.json["steps"]] == STEPS
    assert (tmp_path / "d/report.html").exists()
    with records.opened(tmp_path / "d/measure") as journal:
        assert {outcome.item.engine for outcome in journal.outcomes()} == {"dask"}
    for name in ("tune", "train", "evaluate"):
        with records.opened(tmp_path / "d" / name) as journal:
            assert [session["engine"] for session in journal.sessions()] == ["dask"]


def test_an_image_is_enlarged() -> None:
    image, label = digits.enlarged((numpy.full((8, 8), 16.0), 3))
    assert (image.shape, image.dtype, image.max(), label) == ((16, 16), numpy.float32, 1.0, 3)


def test_missing_packages_are_told_with_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenfold.machine.installed.version", lambda *names: "3.1" if names == ("keras",) else None)
    result = run("demo")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: what the demo needs (jax, scikit-learn, optuna, scipy) is not installed; "
        'install it with: pip install "tenfold[demo]"\n'
    )


@pytest.mark.parametrize("trials", ["0", "x"])
def test_bad_calls(run: Run, trials: str) -> None:
    assert run("demo", "--trials", trials).exit_code == 2
