"""`tenfold map`: from a file and its items to a summary, a status and JSON."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import calls
import pytest
from calls import Run

import waiting

FILE = """
import os
import tenfold

print("loaded")

class Fitted:
    def __init__(self, loss):
        self.loss = loss

    def __repr__(self):
        return f"Fitted({self.loss})"

def train(item, lr=0.1, bad=()):
    print("training", item)
    if item in bad:
        raise ValueError(f"item {item} is bad")
    return {"loss": item * lr, "seed": tenfold.here().seed}

def fit(item):
    return Fitted(item["lr"])

def crash(item):
    os._exit(3)

def wait(item):
    open(f"began-{item}", "w").close()
    if item > 1:
        import threading
        threading.Event().wait(60)
    return item
"""


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FILE)
    return tmp_path


# -- in processes of their own ----------------------------------------------------------------------------------


def test_json_alone_on_stdout(folder: Path) -> None:
    ended = calls.tenfold(folder, "map", "train.py:train", "--n", "3", "--set", "lr=2", "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert [value["loss"] for value in found["values"]] == [0, 2, 4]
    assert (found["function"], found["run"]) == ("train.py:train", None)
    assert (found["tasks"], found["done"], found["failed"], found["failures"]) == (3, 3, 0, [])
    assert found["workers"] >= 1
    assert found["seconds"] > 0
    assert ended.err.startswith("loaded\n")
    assert ended.err.count("training") == 3


def test_failed_tasks_have_their_tracebacks_on_stderr_and_the_status_is_1(folder: Path) -> None:
    ended = calls.tenfold(folder, "map", "train.py:train", "--n", "6", "--set", "bad=[1,2,3,4]", "--retries", "1")
    assert ended.status == 1
    assert "6 tasks, 2 done, 4 failed" in ended.out
    assert "failed: ValueError: item 1 is bad" in ended.out
    assert "not kept: --run FOLDER keeps a run" in ended.out
    assert "task 1 failed: ValueError: item 1 is bad" in ended.err
    assert ended.err.count('raise ValueError(f"item {item} is bad")') == 3
    assert "attempt 2" in ended.err
    assert "... and 1 more failures; --run FOLDER keeps them all" in ended.err
    assert "tenfold/cli" not in ended.err


def test_a_class_of_the_file_as_a_result(folder: Path) -> None:
    (folder / "grid.jsonl").write_text('{"lr": 0.1}\n{"lr": 0.2}\n')
    ended = calls.tenfold(folder, "map", "train.py:fit", "--items", "grid.jsonl", "--json")
    assert ended.json["values"] == ["Fitted(0.1)", "Fitted(0.2)"]


def test_a_dead_worker_is_a_failure(folder: Path) -> None:
    ended = calls.tenfold(folder, "map", "train.py:crash", "--n", "1", "--json")
    assert ended.status == 1
    (failure,) = ended.json["failures"]
    assert (failure["task"], failure["kind"]) == (0, "died")


def test_ctrl_c_then_the_same_call(folder: Path) -> None:
    # A process for each task, so that no two of them travel together and wait for each other.
    words = ["map", "train.py:wait", "--n", "4", "--workers", "2", "--isolate", "--run", "runs/a"]
    with calls.started(folder, *words) as process:
        waiting.until(lambda: (folder / "began-3").exists() and (folder / "began-2").exists())
        running = calls.tenfold(folder, "runs", "--json").json["runs"]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    assert [(found["path"], found["state"]) for found in running] == [("runs/a", "running")]
    told = (folder / "stderr").read_text()
    assert "interrupted\n2/4 done" in told
    assert "the same call continues the run in" in told
    assert "Traceback" not in told
    (record,) = calls.tenfold(folder, "runs", "--json").json["runs"]
    assert (record["state"], record["done"]) == ("unfinished", 2)
    (folder / "train.py").write_text(FILE.replace("if item > 1", "if item > 3"))
    assert "the code of wait has changed" in calls.tenfold(folder, *words).err


# -- in this process --------------------------------------------------------------------------------------------


def test_the_summary(folder: Path, run: Run) -> None:
    result = run("map", "train.py:train", "--n", "10", "--engine", "serial", "--run", "runs/[a]")
    assert result.exit_code == 0, result.stderr
    assert "10 tasks, 10 done" in result.stdout
    assert "{'loss': 0.7" in result.stdout
    assert "... 2 more" in result.stdout
    assert "kept in runs/[a]: tenfold show runs/[a]" in result.stdout
    assert result.stderr == ""


def test_the_same_call_again_says_what_was_done(folder: Path, run: Run) -> None:
    words = ("map", "train.py:train", "--n", "3", "--engine", "serial", "--run", "a", "--json")
    first, again = run(*words), run(*words)
    assert "3 of 3 tasks were done before, and were not run again" in again.stderr
    assert "training" not in again.stderr
    values = [json.loads(result.stdout)["values"] for result in (first, again)]
    assert values[0] == values[1]
    fresh = run(*words, "--fresh")
    assert "done before" not in fresh.stderr
    assert "training 2" in fresh.stderr


def test_another_call_in_the_same_folder_is_refused(folder: Path, run: Run) -> None:
    run("map", "train.py:train", "--n", "3", "--engine", "serial", "--run", "a")
    result = run("map", "train.py:train", "--n", "3", "--set", "lr=5", "--engine", "serial", "--run", "a")
    assert result.exit_code == 2
    assert "differs from this call" in result.stderr
    assert "(here: --run, --fresh)" in result.stderr
    assert "done before" not in result.stderr


def test_the_name_of_the_function_is_kept_with_settings(folder: Path, run: Run) -> None:
    run("map", "train.py:train", "--n", "1", "--set", "lr=5", "--engine", "serial", "--run", "a")
    (record,) = json.loads(run("runs", "--json").stdout)["runs"]
    assert record["function"] == "train"


def test_collected_failures_are_no_fault(folder: Path, run: Run) -> None:
    words = ("map", "train.py:train", "--n", "3", "--set", "bad=[1]", "--engine", "serial", "--json")
    result = run(*words, "--on-error", "collect")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["values"][1] is None
    assert found["failures"][0]["summary"] == "ValueError: item 1 is bad"


def test_stop_at_the_first(folder: Path, run: Run) -> None:
    words = ("map", "train.py:train", "--n", "50", "--set", "bad=[0]", "--engine", "serial", "--json")
    result = run(*words, "--on-error", "stop")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failed"] == 1


def test_items_from_stdin(folder: Path, run: Run) -> None:
    words = ("map", "train.py:fit", "--items", "-", "--engine", "serial", "--json")
    result = run(*words, input='{"lr": 1}\n{"lr": 2}\n')
    assert json.loads(result.stdout)["values"] == ["Fitted(1)", "Fitted(2)"]
    broken = run(*words, input='{"lr": 1}\nnonsense\n')
    assert broken.exit_code == 2
    assert "--items 'stdin', line 2: 'nonsense' is not JSON" in broken.stderr
    assert broken.stdout == ""


def test_no_items_at_all(folder: Path, run: Run) -> None:
    result = run("map", "train.py:train", "--n", "0", "--json")
    assert json.loads(result.stdout)["values"] == []
    assert "0 tasks, 0 done" in run("map", "train.py:train", "--n", "0").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "expected --n N (the numbers 0 to N-1) or --items FILE.jsonl, and neither was given"),
        (("--n", "1", "--items", "x"), "and both were given"),
        (("--n", "-1"), "Invalid value for '--n'"),
        (("--n", "x"), "'x' is not a valid integer"),
        (("--n", "1", "--cpus", "1.5"), "cpus=1.5: expected a fraction from 0.01 to 1, or a whole number"),
        (("--n", "1", "--cpus", "1000"), "cpus=1000"),
        (("--n", "1", "--memory", "lots"), "memory='lots': expected a number of bytes"),
        (("--n", "1", "--workers", "0"), "workers=0: expected a whole number above 0"),
        (("--n", "1", "--retries", "-1"), "retries=-1: expected a whole number, 0 or above"),
        (("--n", "1", "--timeout", "0"), "timeout=0.0: expected seconds above 0"),
        (("--n", "1", "--on-error", "ignore"), "'ignore' is not one of"),
        (("--n", "1", "--engine", "magic"), "engine='magic': there is no such engine"),
        (("--n", "1", "--engine", "serial", "--isolate"), "isolate=True cannot be kept by the engine in use"),
        (("--n", "1", "--fresh"), "there is nothing to start anew without run="),
        (("--n", "1", "--run", "train.py"), "is a file; give the name of a folder"),
        (("--n", "1", "--set", "lrr=1"), "got an unexpected keyword argument 'lrr'"),
    ],
)
def test_bad_calls(folder: Path, run: Run, words: tuple[str, ...], told: str) -> None:
    result = run("map", "train.py:train", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "training" not in result.stdout
