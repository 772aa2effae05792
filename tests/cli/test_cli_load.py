"""`FILE.py:NAME`: found, and told what is there where it is not."""

from __future__ import annotations

import os.path
import sys
from pathlib import Path

import cloudpickle
import pytest
from calls import Run

from tenfold.cli import load
from tenfold.errors import BadCall

FILE = """
import helper

RATE = 0.5

def train(item):
    return helper.double(item)

def evaluate(item):
    return -item

def _private(item):
    return item

class Model:
    @staticmethod
    def fit(item):
        return item + 1

if __name__ == "__main__":
    raise SystemExit("it was run")
"""


@pytest.fixture
def file(run: Run, tmp_path: Path) -> Path:
    """A file next to a helper, in a folder that is not the current one."""
    folder = tmp_path / "my code"
    folder.mkdir()
    (folder / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "train.py").write_text(FILE)
    return folder / "train.py"


def test_a_function_of_a_file(file: Path) -> None:
    function = load.function(f"{file}:train")
    assert function(4) == 8
    assert sys.path[0] == str(file.parent)


def test_it_travels_by_value(file: Path) -> None:
    found = load.function(f"{file}:evaluate")
    packed = cloudpickle.dumps(found)
    assert b"evaluate" in packed
    cloudpickle.unregister_pickle_by_value(sys.modules["train"])
    del sys.modules["train"]
    file.unlink()
    assert cloudpickle.loads(packed)(3) == -3


def test_a_member_of_a_class(file: Path) -> None:
    assert load.function(f"{file}:Model.fit")(1) == 2


def test_a_file_named_like_a_loaded_module_does_not_take_its_place(file: Path) -> None:
    import json

    (file.parent / "json.py").write_text("def train(item):\n    return item\n")
    assert load.function(f"{file.parent / 'json.py'}:train")(5) == 5
    assert sys.modules["json"] is json


def test_a_module_by_its_name(run: Run, tmp_path: Path) -> None:
    assert load.function("os.path:basename") is os.path.basename
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "inner.py").write_text("def train(item):\n    return item\n")
    assert load.function("package.inner:train")(2) == 2


def test_a_fit_is_offered_too(tmp_path: Path) -> None:
    text = "import numpy, tenfold\nfit = tenfold.Fit(lambda: None, (numpy.ones(3), numpy.ones(3)), epochs=1)\n"
    (tmp_path / "fits.py").write_text(text)
    with pytest.raises(BadCall, match=r"there is .*fits\.py:fit$"):
        load.function(f"{tmp_path / 'fits.py'}:nothing")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("trian", "has no 'trian': there is {file}:train, {file}:evaluate"),
        ("RATE", "is no function but of type float: there is {file}:train, {file}:evaluate"),
        ("", "say which function of it: there is {file}:train, {file}:evaluate"),
    ],
)
def test_what_is_there_is_offered(file: Path, name: str, told: str) -> None:
    with pytest.raises(BadCall) as caught:
        load.function(f"{file}:{name}")
    assert told.format(file=file) in str(caught.value)


def test_a_file_without_its_name_offers_too(file: Path) -> None:
    with pytest.raises(BadCall, match="say which function of it"):
        load.function(str(file))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (":train", "expected FILE.py:NAME"),
        ("nowhere.py:train", "'nowhere.py': there is no such file"),
        ("no.such.module:train", "'no.such.module': there is no such file, and no module of that name"),
        ("notes.txt:train", "is not a Python file"),
        ("empty.py:train", "there is no function in it"),
    ],
)
def test_what_cannot_be_found(run: Run, tmp_path: Path, target: str, told: str) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty.py").touch()
    with pytest.raises(BadCall) as caught:
        load.function(target)
    assert told in str(caught.value)


def test_files_next_to_a_missing_one_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(BadCall, match=r"there is train\.py$"):
        load.function("tarin.py:train")


@pytest.mark.parametrize("text", ["import no_such_thing", "def train(:", "raise SystemExit(3)", "1 / 0"])
def test_a_file_that_cannot_be_loaded_shows_its_own_traceback(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.py").write_text(f"\n{text}\n")
    result = run("map", "broken.py:train", "--n", "1")
    assert result.exit_code == 2
    assert "broken.py' cannot be loaded: " in result.stderr
    assert 'broken.py", line 2' in result.stderr
    assert "cli/load.py" not in result.stderr
    assert "importlib" not in result.stderr
    assert "broken" not in sys.modules
