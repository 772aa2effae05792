"""`tenfold predict`: a model of a file over data, kept in a folder."""

from __future__ import annotations

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

def total(rows):
    return rows.sum(axis=1)

def both(rows):
    return {"sum": rows.sum(axis=1), "mean": rows.mean(axis=1)}

class Estimator:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, rows):
        return rows * self.factor

twice = Estimator(2)

def made():
    return Estimator(3)

number = 7

def slow(rows):
    pathlib.Path(f"began-{int(rows[0, 0])}").touch()
    if rows[0, 0] >= 2048 and not pathlib.Path("go").exists():
        threading.Event().wait(60)
    return rows
"""


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(FILE)
    numpy.save(tmp_path / "x.npy", numpy.arange(40.0).reshape(10, 4))
    return tmp_path


def test_a_function_of_rows(folder: Path, run: Run) -> None:
    words = ("predict", "model.py:total", "x.npy", "--to", "predictions", "--engine", "serial")
    ended = run(*words)
    assert ended.exit_code == 0, ended.output
    assert f"10 rows in {folder}/predictions" in ended.stdout
    assert numpy.array_equal(numpy.load("predictions/data.npy"), numpy.load("x.npy").sum(1))
    assert "made before" in run(*words).stdout


@pytest.mark.parametrize(("name", "factor"), [("twice", 2), ("made", 3)])
def test_an_object_and_one_that_a_function_makes(name: str, factor: int, folder: Path, run: Run) -> None:
    ended = run("predict", f"model.py:{name}", "x.npy", "--to", "set", "--batch-size", "3", "--engine", "serial")
    assert ended.exit_code == 0, ended.output
    assert numpy.array_equal(numpy.load("set/data.npy"), numpy.load("x.npy") * factor)


def test_a_keras_file_and_json_alone_on_stdout(folder: Path) -> None:
    make = (
        "import keras; model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, kernel_initializer='ones')]);"
        "model.save('model.keras')"
    )
    assert calls.python(folder, make).status == 0
    ended = calls.tenfold(folder, "predict", "model.keras", "x.npy", "--to", "set", "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert (found["model"], found["source"], found["rows"]) == ("model.keras", "x.npy", 10)
    assert found["columns"] == [{"name": "data", "dtype": "float32", "shape": [2]}]
    expected = numpy.load(folder / "x.npy").sum(1, keepdims=True).repeat(2, 1)
    numpy.testing.assert_allclose(numpy.load(folder / "set" / "data.npy"), expected)


def test_columns_of_a_table_and_one_of_several_outputs(folder: Path, run: Run) -> None:
    numpy.savez(folder / "table.npz", a=[1.0, 4.0], b=[2.0, 5.0], c=["u", "v"])
    words = ("--input", "a", "--input", "b", "--column", "a", "--column", "b", "--output", "mean")
    ended = run("predict", "model.py:both", "table.npz", "--to", "set", *words, "--engine", "serial")
    assert ended.exit_code == 0, ended.output
    assert numpy.load("set/data.npy").tolist() == [1.5, 4.5]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model.py:total", "x.npy"), "Missing option '--to'"),
        (("model.py:total", "--to", "set"), "expected one SOURCE, and none was given"),
        (("model.py:number", "x.npy", "--to", "set"), "model=7: int is no model"),
        (("model.py:nix", "x.npy", "--to", "set"), "'model.py' has no 'nix'"),
        (("nix.keras", "x.npy", "--to", "set"), "model='nix.keras': cannot be read"),
        (("model.pkl", "x.npy", "--to", "set"), "a pickle runs whatever code is in it"),
        (("model.py:total", "nix.npy", "--to", "set"), "source='nix.npy': no such file or folder"),
        (("model.py:total", "x.npy", "--to", "set", "--batch-size", "0"), "batch_size=0: expected a whole number"),
        (("model.py:total", "x.npy", "--to", "set", "--format", "csv"), "'csv' is not one of"),
    ],
)
def test_bad_calls(folder: Path, run: Run, words: tuple[str, ...], told: str) -> None:
    result = run("predict", *words)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert not (folder / "set").exists()


def test_ctrl_c_then_the_same_call(folder: Path) -> None:
    numpy.save(folder / "long.npy", numpy.arange(4096.0).reshape(-1, 1))
    words = ("predict", "model.py:slow", "long.npy", "--to", "set", "--batch-size", "64", "--json")
    with calls.started(folder, *words) as process:
        waiting.until(lambda: (folder / "began-2048").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    assert "the same call continues" in (folder / "stderr").read_text()
    (folder / "began-0").unlink()
    (folder / "go").touch()
    ended = calls.tenfold(folder, *words)
    assert ended.status == 0, ended.err
    assert not (folder / "began-0").exists(), "what was done is not done again"
    assert numpy.array_equal(numpy.load(folder / "set" / "data.npy"), numpy.load(folder / "long.npy"))
