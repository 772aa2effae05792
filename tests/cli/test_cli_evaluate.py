"""`tenfold evaluate`: scores of one or several sources and models, as text and as JSON."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import calls
import numpy
import pytest
from calls import Run

import waiting

FILE = """
import pathlib
import threading
import numpy

print("loaded")

def sign(rows):
    return (rows[:, 0] > 0).astype(int)

def wrong(rows):
    return 1 - sign(rows)

def words(rows):
    return numpy.where(rows[:, 0] > 0, [[0.1], [0.9]], [[0.8], [0.2]]).T

models = {"good": sign, "bad": wrong}

def pairs():
    x = numpy.linspace(-1, 1, 20).reshape(10, 2)
    return x, (x[:, 0] > 0).astype(int)

def slow(rows):
    pathlib.Path(f"began-{int(rows[0, 0])}").touch()
    if rows[0, 0] >= 2048 and not pathlib.Path("go").exists():
        threading.Event().wait(60)
    return rows[:, 0]

def many():
    return numpy.arange(4096.0).reshape(-1, 1), numpy.arange(4096.0)
"""
TABLE = {"a": [-1.0, 2, 3, -4], "b": [0.0] * 4, "kind": ["u", "v", "v", "u"]}


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(FILE)
    numpy.savez(tmp_path / "one.npz", **TABLE, label=[0, 1, 0, 0])
    numpy.savez(tmp_path / "two.npz", **TABLE, label=[0, 1, 1, 0])
    return tmp_path


def test_the_scores_of_pairs(folder: Path, run: Run) -> None:
    words = ("--metric", "accuracy", "--metric", "f1_macro", "--by", "y", "--bootstrap", "20", "--engine", "serial")
    ended = run("evaluate", "model.py:sign", "model.py:pairs", *words)
    assert ended.exit_code == 0, ended.output
    assert "Scores of 10 rows" in ended.stdout
    assert "  accuracy  1  (1 to 1)" in ended.stdout
    assert "  0, 5 rows" in ended.stdout
    assert "not kept: --run FOLDER keeps it" in ended.stdout


def test_json_alone_on_stdout(folder: Path) -> None:
    words = ("--metric", "accuracy", "--target", "label", "--input", "a", "--input", "b", "--by", "kind", "--json")
    ended = calls.tenfold(folder, "evaluate", "model.py:sign", "one.npz", *words, "--run", "runs/a")
    assert ended.status == 0, ended.err
    assert "loaded" in ended.err
    found = ended.json
    assert (found["model"], found["run"]) == ("model.py:sign", "runs/a")
    assert (found["scores"]["rows"], found["scores"]["scores"]) == (4, {"accuracy": 0.75})
    assert found["scores"]["groups"]["v"]["scores"] == {"accuracy": 0.5}


def test_several_sources_and_models_by_name(folder: Path, run: Run) -> None:
    words = ("--metric", "accuracy", "--target", "label", "--input", "a", "--input", "b", "--engine", "serial")
    ended = run("evaluate", "model.py:models", "one.npz", "two.npz", *words, "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)["scores"]
    assert {name: {model: one["scores"]["accuracy"] for model, one in of.items()} for name, of in found.items()} == {
        "one.npz": {"good": 0.75, "bad": 0.25},
        "two.npz": {"good": 1.0, "bad": 0.0},
    }
    told = run("evaluate", "model.py:models", "one.npz", "two.npz", *words).stdout
    assert "one.npz: good\n" in told
    assert "two.npz: bad\n" in told


def test_labels_of_columns_and_a_metric_of_a_file(folder: Path, run: Run) -> None:
    numpy.savez(folder / "cats.npz", **TABLE, label=["cat", "dog", "cat", "cat"])
    (folder / "metric.py").write_text(
        "class Count:\n"
        "    name = 'count'\n"
        "    def init(self):\n        return 0\n"
        "    def update(self, state, truth, predicted, weight=None):\n        return state + len(truth)\n"
        "    def merge(self, a, b):\n        return a + b\n"
        "    def result(self, state):\n        return float(state)\n"
        "count = Count()\n"
    )
    words = ("--target", "label", "--input", "a", "--input", "b", "--class", "cat", "--class", "dog")
    ended = run(
        *("evaluate", "model.py:words", "cats.npz", "--metric", "accuracy", "--metric", "metric.py:count", *words),
        *("--engine", "serial", "--json"),
    )
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["scores"]["scores"] == {"accuracy": 0.75, "count": 4.0}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model.py:sign", "one.npz"), "Missing option '--metric'"),
        (("model.py:sign", "--metric", "accuracy"), "expected a SOURCE with the truth in it, and none was given"),
        (("model.py:sign", "one.npz", "--metric", "acuracy"), "metric 'acuracy' is not known; did you mean 'accuracy'"),
        (("model.py:sign", "nix.npz", "--metric", "accuracy"), "source='nix.npz': no such file or folder"),
        (("model.py:nix", "one.npz", "--metric", "accuracy"), "'model.py' has no 'nix'"),
        (("model.py:sign", "one.npz", "--metric", "accuracy"), "there is nothing to compare predictions with"),
        (("model.py:sign", "one.npz", "--metric", "accuracy", "--target", "nix"), "there is no such column"),
        (("model.py:sign", "one.npz", "--metric", "accuracy", "--fresh"), "nothing to start anew without run="),
        (("model.py:sign", "one.npz", "--metric", "accuracy", "--batch-size", "0"), "batch_size=0"),
    ],
)
def test_bad_calls(folder: Path, run: Run, words: tuple[str, ...], told: str) -> None:
    result = run("evaluate", *words, "--engine", "serial")
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in result.output


def test_ctrl_c_then_the_same_call(folder: Path) -> None:
    words = ("evaluate", "model.py:slow", "model.py:many", "--metric", "mae", "--workers", "1", "--run", "runs/a")
    with calls.started(folder, *words) as process:
        waiting.until(lambda: (folder / "began-2048").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    assert "the same call continues the run in" in (folder / "stderr").read_text()
    (folder / "began-0").unlink()
    (folder / "go").touch()
    ended = calls.tenfold(folder, *words, "--json")
    assert ended.status == 0, ended.err
    assert not (folder / "began-0").exists(), "what was done is not done again"
    assert ended.json["scores"] == {"rows": 4096, "scores": {"mae": 0.0}}
