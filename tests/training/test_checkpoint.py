"""The checkpoint of a training counts when it is whole; what is torn is as if it were not there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nets
import pytest

import tenfold
from tenfold.errors import TasksFailed
from tenfold.training.checkpoint import Checkpoint


def test_a_torn_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "train.checkpoint"
    Checkpoint(path).write(7, b"the state of a model")
    assert (Checkpoint(path).mark, Checkpoint(path).body()) == (7, b"the state of a model")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert Checkpoint(path).mark == -1, f"its first {length} bytes"
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert Checkpoint(path).mark == -1, f"a bit of byte {place}"
    with pytest.raises(OSError, match="gone, or damaged"):
        Checkpoint(path).body()
    path.write_bytes(whole)
    assert Checkpoint(path).mark == 7


def test_one_that_is_killed_while_it_writes_leaves_the_last(tmp_path: Path) -> None:
    path = tmp_path / "train.checkpoint"
    Checkpoint(path).write(7, b"the state of a model")
    path.with_suffix(".partial").write_bytes(b"half of the next")
    assert Checkpoint(path).body() == b"the state of a model"
    Checkpoint(path).write(8, b"the next")
    assert list(tmp_path.iterdir()) == [path], "what is left of the half is gone with the next"


@pytest.mark.parametrize("how", ["synchronous", "asynchronous"])
def test_a_training_goes_on_from_a_whole_one_only(how: Any, tmp_path: Path) -> None:
    """Two copies of one that was broken off; a bit of one's checkpoint is changed. Checkpoints go by time."""
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    fit = nets.fit(nets.build_costly, epochs=20, validation=None)
    options: dict[str, Any] = {"workers": 2, "how": how, "checkpoint": "0.05s", "progress": False}
    params = {"seed": 3, "step": 0.004, "folder": str(tmp_path), "at": 60}
    with pytest.raises(TasksFailed, match="once"):
        tenfold.train(fit, params, run=whole, **options)
    shutil.copytree(whole, torn)
    found = (torn / "train.checkpoint").read_bytes()
    (torn / "train.checkpoint").write_bytes(found[:-1] + bytes([found[-1] ^ 1]))
    anew = tenfold.train(fit, params, run=torn, **options)
    resumed = tenfold.train(fit, params, run=whole, **options)
    steps = [int(trained.events[0].rpartition("2 of 2 workers go on at step ")[2]) for trained in (anew, resumed)]
    assert 0 == steps[0] < steps[1]
    assert anew.updates == resumed.updates == 20 * 7
    if how == "synchronous":
        assert nets.furthest(resumed.weights, anew.weights) < 1e-5
