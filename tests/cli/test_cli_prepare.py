"""`tenfold prepare`: paths, patterns and objects in; a folder, a table, a status and JSON out."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import calls
import numpy
import pytest
from calls import Run

import tenfold
import waiting

FILE = """
import pathlib
import threading
import numpy

print("loaded")
rows = numpy.arange(40.0).reshape(10, 4)

def scale(row, by=2):
    return row * by

def positive(row):
    if row[0] >= 32:
        raise ValueError("too large")
    return row, int(row[0] > 10)

def sums(batch):
    return batch.sum(axis=1)

def small(image):
    return image[::2, ::2]

def names():
    yield from range(5)

def slow(row):
    pathlib.Path(f"began-{int(row[0])}").touch()
    if row[0] >= 20 and not pathlib.Path("go").exists():
        threading.Event().wait(60)
    return row
"""


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text(FILE)
    numpy.save(tmp_path / "x.npy", numpy.arange(40.0).reshape(10, 4))
    return tmp_path


def test_a_file_through_a_function(folder: Path, run: Run) -> None:
    words = ("prepare", "scale.py:scale", "x.npy", "--to", "prepared/x", "--set", "by=3", "--engine", "serial")
    ended = run(*words)
    assert ended.exit_code == 0, ended.output
    assert "data     4 of float64   320 B" in ended.stdout
    assert f"10 rows in {folder}/prepared/x" in ended.stdout
    assert numpy.array_equal(numpy.load("prepared/x/data.npy"), numpy.load("x.npy") * 3)
    assert "made before: nothing had to be done" in run(*words).stdout
    assert "made before" not in run(*words, "--fresh").stdout


def test_json_alone_on_stdout(folder: Path) -> None:
    ended = calls.tenfold(folder, "prepare", "scale.py:positive", "x.npy", "--to", "set", "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert (found["function"], found["source"], found["to"]) == ("scale.py:positive", "x.npy", str(folder / "set"))
    assert (found["rows"], found["bytes"], found["format"], found["cached"]) == (8, 320, "npy", False)
    assert found["columns"] == [
        {"name": "x", "dtype": "float64", "shape": [4]},
        {"name": "y", "dtype": "int64", "shape": []},
    ]
    assert [(one["sample"], one["error"]) for one in found["quarantine"]] == [
        (8, "ValueError: too large"),
        (9, "ValueError: too large"),
    ]
    assert "loaded" in ended.err
    assert "warning: 2 of 10 samples failed and were left out" in ended.err
    assert calls.tenfold(folder, "prepare", "scale.py:positive", "x.npy", "--to", "set", "--json").json["cached"]


def test_batches_of_an_object_of_a_file_in_another_format(folder: Path, run: Run) -> None:
    words = ("--to", "set", "--batch", "4", "--batched", "--format", "parquet", "--engine", "serial")
    ended = run("prepare", "scale.py:sums", "scale.py:rows", *words)
    assert ended.exit_code == 0, ended.output
    assert ended.output.count("loaded") == 1, "a file that is named twice is loaded once"
    assert (folder / "set" / "data.parquet").exists()
    assert numpy.array_equal(tenfold.Prepared.open("set").numpy(), numpy.load("x.npy").sum(1))


def test_what_a_function_without_parameters_gives(folder: Path, run: Run) -> None:
    ended = run("prepare", "scale.py:scale", "scale.py:names", "--to", "set", "--engine", "serial")
    assert ended.exit_code == 0, ended.output
    assert numpy.load("set/data.npy").tolist() == [0, 2, 4, 6, 8]


def test_a_pattern_of_images(folder: Path, run: Run) -> None:
    from PIL import Image

    (folder / "photos").mkdir()
    for number in range(3):
        Image.fromarray(numpy.full((8, 6, 3), number, "uint8")).save(folder / "photos" / f"{number}.png")
    ended = run("prepare", "scale.py:small", "photos/*.png", "--to", "set", "--engine", "serial", "--json")
    assert ended.exit_code == 0, ended.output
    assert numpy.load("set/data.npy").shape == (3, 4, 3, 3)
    told = run("prepare", "scale.py:small", *map(str, sorted((folder / "photos").iterdir())), "--to", "set")
    assert told.exit_code == 2
    assert "expected one SOURCE, and 3 were given; in quotes, the shell leaves a pattern alone" in told.stderr


def test_a_failure_that_stops_has_the_status_1(folder: Path, run: Run) -> None:
    words = ("--to", "set", "--on-error", "raise", "--engine", "serial")
    ended = run("prepare", "scale.py:positive", "x.npy", *words)
    assert ended.exit_code == 1
    assert ended.stdout.strip() == "loaded"
    assert "sample 8: ValueError: too large" in ended.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("scale.py:scale", "x.npy"), "Missing option '--to'"),
        (("scale.py:scale", "--to", "set"), "expected one SOURCE, and none was given"),
        (("scale.py:nix", "x.npy", "--to", "set"), "'scale.py' has no 'nix': there is scale.py:scale"),
        (("scale.py:rows", "x.npy", "--to", "set"), "is no function but of type ndarray"),
        (("scale.py:scale", "scale.py:nix", "--to", "set"), "'scale.py' has no 'nix'"),
        (("scale.py:scale", "nix.npy", "--to", "set"), "source='nix.npy': no such file or folder"),
        (("scale.py:scale", "*.jpg", "--to", "set"), "no file matches"),
        (("scale.py:scale", "x.npy", "--to", "scale.py"), "is a file; give the name of a folder"),
        (("scale.py:scale", "x.npy", "--to", "."), "holds files that are not a prepared set"),
        (("scale.py:scale", "x.npy", "--to", "set", "--batch", "0"), "batch=0: expected a whole number, 1 or above"),
        (("scale.py:scale", "x.npy", "--to", "set", "--format", "csv"), "'csv' is not one of"),
        (("scale.py:scale", "x.npy", "--to", "set", "--on-error", "stop"), "'stop' is not one of"),
        (("scale.py:scale", "x.npy", "--to", "set", "--column", "a"), "columns=['a']"),
        (("scale.py:scale", "x.npy", "--to", "set", "--set", "times=2"), "unexpected keyword argument 'times'"),
        (("scale.py:scale", "x.npy", "--to", "set", "--run", "runs/a"), "No such option '--run'"),
    ],
)
def test_bad_calls(folder: Path, run: Run, words: tuple[str, ...], told: str) -> None:
    result = run("prepare", *words)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert not (folder / "set").exists()


def test_ctrl_c_then_the_same_call(folder: Path) -> None:
    words = ("prepare", "scale.py:slow", "x.npy", "--to", "set", "--batch", "1", "--workers", "2", "--json")
    with calls.started(folder, *words) as process:
        waiting.until(lambda: (folder / "began-20").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    told = (folder / "stderr").read_text()
    assert "the same call continues" in told
    assert "Traceback" not in told
    assert not (folder / "set" / "manifest.json").exists()
    (folder / "began-0").unlink()
    (folder / "go").touch()
    ended = calls.tenfold(folder, *words)
    assert ended.status == 0, ended.err
    assert ended.json["rows"] == 10
    assert not (folder / "began-0").exists(), "what was done is not done again"
    assert json.loads((folder / "set" / "manifest.json").read_text())["rows"] == 10
