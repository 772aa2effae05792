"""What tests of the command line share: a runner in this process, and this process as it was afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from calls import Run
from click.testing import CliRunner

import tenfold
from tenfold.cli.commands import commands


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """`run("map", "train.py:train", ...)` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = dict(sys.modules)
    yield lambda *words, **options: CliRunner().invoke(commands, list(words), prog_name="tenfold", **options)
    for name in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.unregister_pickle_by_value(sys.modules[name])
    for name in [name for name in sys.modules if name not in modules and _is_users(name, tmp_path)]:
        del sys.modules[name]


def _is_users(name: str, folder: Path) -> bool:
    return str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with one run in it: 4 tasks, the last of which failed twice."""

    def train(item: int) -> dict[str, int]:
        tenfold.here().report(0, loss=10.0 + item)
        tenfold.here().report(1, loss=0.5 + item)
        if item == 3:
            raise ValueError(f"item {item}, attempt {tenfold.here().attempt}, is bad")
        return {"square": item * item}

    tenfold.map(train, range(4), run=tmp_path / "runs" / "one", retries=1, on_error="collect", engine="serial")
    return tmp_path
