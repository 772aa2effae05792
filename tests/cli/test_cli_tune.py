"""`tenfold tune`: a space in a file, the best so far, a table, a status and JSON."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import calls
import pytest
from calls import Run

import waiting
from tenfold.cli.tune import read
from tenfold.errors import BadCall
from tenfold.search import space as spaces
from tenfold.search.space import Choice, Constant, Number

FILE = """
import time
import tenfold

print("loaded")

def train(params, scale=1):
    if params["x"] == 3:
        raise ValueError("three is bad")
    return {"loss": (params["x"] - 1) ** 2 * params.get("scale", 1), "x": params["x"]}

def steps(params):
    here = tenfold.here()
    for step in range(9):
        here.report(step, loss=params["x"] / (step + 1))

def infinite(params):
    return float("inf") if params["x"] == 1 else float("nan")

def slow(params):
    open(f"began-{params['x']}", "w").close()
    if params["x"] > 1:
        import threading
        threading.Event().wait(60)
    return params["x"]

def build(lr):
    import torch
    module = torch.nn.Linear(3, 1)
    return module, torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), lr)

def fit():
    import numpy
    x = numpy.arange(60, dtype="float32").reshape(20, 3) / 60
    return tenfold.Fit(build, (x, x.sum(axis=1, keepdims=True)), epochs=3)

model = fit()
"""
GRID = "x = [2, 3, 1]\n"
EVERY = """
rate = { loguniform = [1e-4, 1e-1] }
share = { uniform = [0, 1] }
depth = { integer = [1, 4] }
width = { logint = [8, 128] }
kind = { choice = ["a", "b"] }
flag = [true, false]
seed = { constant = 5 }
name = "plain"

[optimizer.choice.adam]

[optimizer.choice.sgd]
momentum = { uniform = [0, 1] }
nesterov = [true, false]
"""


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FILE)
    (tmp_path / "space.toml").write_text(GRID)
    return tmp_path


def written(folder: Path, text: str) -> str:
    (folder / "other.toml").write_text(text)
    return str(folder / "other.toml")


# -- spaces ------------------------------------------------------------------------------------------------------------


def test_a_space_in_all_its_forms(tmp_path: Path) -> None:
    found = read(written(tmp_path, EVERY))
    assert found == {
        "rate": Number(1e-4, 1e-1, log=True),
        "share": Number(0, 1),
        "depth": Number(1, 4, whole=True),
        "width": Number(8, 128, whole=True, log=True),
        "kind": Choice(("a", "b")),
        "flag": [True, False],
        "seed": Constant(5),
        "name": "plain",
        "optimizer": spaces.choice(adam={}, sgd={"momentum": Number(0, 1), "nesterov": [True, False]}),
    }
    spaces.Space(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = {}", "x = {}: expected one of uniform, loguniform"),
        ("x = { unifrom = [0, 1] }", "x = {'unifrom': [0, 1]}: expected one of uniform"),
        ("x = { uniform = [0, 1], log = true }", "expected one of uniform"),
        ("x = { uniform = [0] }", "x = {'uniform': [0]}: expected a list of two numbers"),
        ("x = { uniform = 3 }", "expected a list of two numbers"),
        ("x = { choice = 3 }", "x = {'choice': 3}: expected a list"),
        ("x = { choice = { a = 3 } }", "x.a = 3: expected a table of that branch's own parameters"),
        ("x = { choice = { a = { y = { z = 1 } } } }", "x.a.y = {'z': 1}: expected one of uniform"),
        ("x = ", "cannot be read"),
        ("x = { uniform = [2, 1] }", "x: uniform(2, 1): the first must be below the second"),
        ("", "expected a dict such as"),
    ],
)
def test_a_space_that_cannot_be_read(text: str, told: str, folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:train", "--space", written(folder, text), "--trials", "3")
    assert ended.exit_code == 2, ended.output
    assert told in ended.output
    assert "Traceback" not in ended.output


def test_all_faults_of_a_file_are_in_one_message(tmp_path: Path) -> None:
    with pytest.raises(BadCall) as found:
        read(written(tmp_path, "x = { unifrom = [0, 1] }\ny = { choice = { a = 3, b = { z = {} } } }\nw = []"))
    assert all(part in str(found.value) for part in ("x = ", "y.a = 3", "y.b.z = {}", "w: choice()"))


def test_there_is_no_such_file(folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:train", "--space", "no.toml")
    assert ended.exit_code == 2
    assert "--space 'no.toml' cannot be read" in ended.output
    assert run("tune", "train.py:train").exit_code == 2, "a study has a space"


# -- studies -----------------------------------------------------------------------------------------------------------


def test_the_table(folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:train", "--space", "space.toml", "--objective", "loss", "--engine", "serial")
    assert ended.exit_code == 0, ended.output
    rows = [line.split() for line in ended.stdout.splitlines() if "x=" in line and "trials" not in line]
    assert [(row[0], row[1]) for row in rows] == [("2", "0"), ("0", "1")]
    assert "3 trials, 2 complete, 1 failed, best loss 0 (trial 2: x=1)" in ended.stdout
    assert "not kept: --run FOLDER keeps a run" in ended.stdout
    assert "trial 1 (x=3) failed" in ended.stderr
    assert 'raise ValueError("three is bad")' in ended.stderr


def test_several_objectives(folder: Path, run: Run) -> None:
    space = written(folder, "x = [2, 3, 1, 0]")
    both = ("--objective", "loss", "--objective", "x", "--direction", "minimize", "--direction", "maximize")
    ended = run("tune", "train.py:train", "--space", space, *both, "--engine", "serial")
    assert "4 trials, 3 complete, 1 failed, 2 on the front" in ended.stdout
    rows = [line.split()[:3] for line in ended.stdout.splitlines() if "x=" in line]
    assert rows == [["2", "0", "1"], ["0", "1", "2"]], "number, loss and x of each on the front"
    found = json.loads(run("tune", "train.py:train", "--space", space, *both, "--engine", "serial", "--json").stdout)
    assert found["objectives"] == {"loss": "minimize", "x": "maximize"}
    assert [one["values"] for one in found["front"]] == [{"loss": 0, "x": 1}, {"loss": 1, "x": 2}]
    assert [one["values"]["x"] for one in found["trials"]] == [2, None, 1, 0]


def test_json_alone_on_stdout(folder: Path, run: Run) -> None:
    words = ("--space", "space.toml", "--objective", "loss", "--set", "scale=10", "--run", "runs/a", "--json")
    ended = calls.tenfold(folder, "tune", "train.py:train", *words)
    assert ended.status == 0, ended.err
    found = ended.json
    assert (found["function"], found["run"]) == ("train.py:train", "runs/a")
    assert (found["objective"], found["direction"]) == ("loss", "minimize")
    assert found["best"]["params"] == {"x": 1, "scale": 10}
    assert [(trial["state"], trial["value"]) for trial in found["trials"]] == [
        ("complete", 10.0),
        ("failed", None),
        ("complete", 0.0),
    ]
    assert "three is bad" in found["trials"][1]["error"]
    assert "the best trials and their parameters: tenfold report runs/a" in run("show", "runs/a").stdout
    assert "loaded" in ended.err
    (record,) = calls.tenfold(folder, "runs", "--json").json["runs"]
    assert (record["path"], record["done"]) == ("runs/a", 2)
    shown = calls.tenfold(folder, "show", "runs/a")
    assert shown.status == 0, shown.err
    assert "tune of train in runs/a" in shown.out
    assert "<trial 0: {'x': 2, 'scale': 10}>" in shown.out
    assert "tries the failed tasks again" not in shown.out


def test_json_has_no_numbers_that_are_none(folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:infinite", "--space", written(folder, "x = [1, 2]"), "--engine", "serial", "--json")

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    found = json.loads(ended.stdout, parse_constant=refuse)
    assert [trial["value"] for trial in found["trials"]] == [None, None]
    assert found["best"]["params"] == {"x": 1}


def test_pruned_with_steps(folder: Path, run: Run) -> None:
    words = ("--pruner", "median", "--objective", "loss", "--engine", "serial", "--json")
    ended = run(
        "tune", "train.py:steps", "--space", written(folder, "x = { uniform = [1, 9] }"), "--trials", "9", *words
    )
    assert ended.exit_code == 0, ended.output
    trials = json.loads(ended.stdout)["trials"]
    assert len(trials) == 9
    assert {trial["steps"] for trial in trials} <= {1, 9}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trials", "0"], "trials=0: expected a whole number above 0"),
        (["--sampler", "tpo", "--pruner", "ascha"], "pruner='ascha'"),
        (["--pruner", "asha"], "give steps="),
        (["--cv", "3"], "folds are of a Fit"),
        (["--direction", "up"], "'up' is not one of"),
        (["--set", "x"], "--set"),
    ],
)
def test_what_cannot_work(words: list[str], told: str, folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:train", "--space", "space.toml", *words)
    assert ended.exit_code == 2, ended.output
    assert told in ended.output
    assert "Traceback" not in ended.output


def test_a_study_in_which_nothing_came_to_its_end_has_the_status_1(folder: Path, run: Run) -> None:
    ended = run("tune", "train.py:train", "--space", written(folder, "x = [3]"), "--engine", "serial")
    assert ended.exit_code == 1
    assert "1 trials, 1 failed" in ended.stdout


def test_a_fit_with_folds(folder: Path) -> None:
    space = written(folder, "lr = { loguniform = [1e-3, 1e-1] }")
    ended = calls.tenfold(folder, "tune", "train.py:model", "--space", space, "--trials", "3", "--cv", "2", "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert found["objective"] == "val_loss"
    assert all(trial["spread"] is not None and trial["steps"] == 3 for trial in found["trials"])


def test_ctrl_c_then_the_same_call(folder: Path) -> None:
    space = written(folder, "x = [1, 0, 2, 3]")
    # A process for each trial, so that no two of them wait for each other.
    words = ["tune", "train.py:slow", "--space", space, "--workers", "2", "--isolate", "--run", "runs/a"]
    with calls.started(folder, *words) as process:
        waiting.until(lambda: (folder / "began-3").exists() and (folder / "began-2").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    told = (folder / "stderr").read_text()
    assert "the same call continues the run in" in told
    assert "best value 0 (trial 1: x=0)" in told, "the best so far"
    assert "Traceback" not in told


def test_the_best_so_far_is_shown_while_others_run(folder: Path) -> None:
    space = written(folder, "x = [1, 0, 2, 3]")
    words = ["tune", "train.py:slow", "--space", space, "--workers", "2", "--isolate"]
    with calls.on_terminal(folder, *words) as terminal:
        ends = terminal.process.poll
        line = r"2 done, 2 running, .*best value 0 \(trial 1: x=0\)"
        waiting.until(lambda: re.search(line, terminal.seen) is not None or ends() is not None)
        assert ends() is None, terminal.seen
        os.killpg(terminal.process.pid, signal.SIGINT)
        waiting.until(lambda: terminal.seen is not None and ends() is not None, 20)  # whoever writes is read
        assert ends() == 130
