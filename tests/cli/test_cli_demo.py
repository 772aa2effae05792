"""`tenfold demo`: two models are enough to see that it works."""

from __future__ import annotations

import json
from pathlib import Path

import calls
import pytest
from calls import Run

from tenfold.cli import digits
from tenfold.machine import installed

needs_packages = pytest.mark.skipif(
    installed.version("tensorflow-cpu", "tensorflow") is None or installed.version("scikit-learn") is None,
    reason='the demo needs: pip install "tenfold[demo]"',
)


@needs_packages
@pytest.mark.slow
def test_train_look_and_look_again(tmp_path: Path) -> None:
    words = ("demo", "--models", "2", "--run", "runs/d")
    first = calls.tenfold(tmp_path, *words)
    assert first.status == 0, first.err
    assert "2 models in " in first.out
    assert "kept in runs/d: tenfold show runs/d" in first.out
    noise = [line for line in first.err.splitlines() if not line.startswith("tenfold: ")]
    assert noise == []
    again = calls.tenfold(tmp_path, *words)
    assert "all 2 models were trained before: shown from runs/d, none was trained again" in again.out
    assert again.out.splitlines()[:5] == first.out.splitlines()[:5]
    found = calls.tenfold(tmp_path, *words, "--json").json
    assert found["done_before"] == 2
    assert sorted((model["lr"], model["seed"]) for model in found["models"]) == [(0.001, 0), (0.003, 0)]
    accuracies = [model["accuracy"] for model in found["models"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] > 0.6
    reports = calls.tenfold(tmp_path, "show", "runs/d", "--task", "1", "--json").json["reports"]
    assert [report["step"] for report in reports] == list(range(digits.EPOCHS))
    other = calls.tenfold(tmp_path, "demo", "--models", "3", "--run", "runs/d")
    assert other.status == 2
    assert "there were 2 items and are now 3" in other.err


def test_missing_packages_are_told_with_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenfold.machine.installed.version", lambda *names: "3.1" if names == ("keras",) else None)
    result = run("demo")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: what the demo trains with (tensorflow, scikit-learn) is not installed; "
        'install it with: pip install "tenfold[demo]"\n'
    )


@pytest.mark.parametrize("models", ["0", "x"])
def test_bad_calls(run: Run, models: str) -> None:
    assert run("demo", "--models", models).exit_code == 2


def test_models_are_spread_over_the_rates(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same items whatever their number: rates first, then seeds."""
    monkeypatch.setattr("tenfold.cli.demo._check_installed", lambda: None)
    monkeypatch.setattr("tenfold.cli.demo._warm", lambda: None)
    monkeypatch.setattr("tenfold.cli.digits.train", lambda item: {"accuracy": item["lr"], "loss": 1.0})
    found = json.loads(run("demo", "--models", "6", "--engine", "serial", "--json").stdout)
    rows = [(model["lr"], model["seed"]) for model in found["models"]]
    assert rows == [(0.03, 0), (0.01, 0), (0.003, 0), (0.003, 1), (0.001, 0), (0.001, 1)]
