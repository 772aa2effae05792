"""`tenfold train`: what is typed arrives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
from calls import Run

TRAIN = """
import numpy
import tenfold


def build():
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    return module, torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1)


x = numpy.ones((8, 4), "float32")
fit = tenfold.Fit(build, (x, x[:, :1]), epochs=1)
"""


def test_a_pipeline(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    options = ("--how", "sharded", "--workers", "2", "--stages", "2", "--cpus", "1", "--json")
    found = json.loads(run("train", "train.py:fit", *options).stdout)
    assert [share["device"] for share in found["shares"]] == ["worker 0", "worker 1"]
    assert [share["parameters"] for share in found["shares"]] == [(4 * 8 + 8) * 4, (8 + 1) * 4]


def test_a_run_with_checkpoints_and_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    options = ("--workers", "2", "--cpus", "1", "--run", "kept", "--checkpoint", "1", "--save", "model.npz", "--json")
    found = json.loads(run("train", "train.py:fit", *options).stdout)
    assert (found["workers"], found["updates"], found["saved"]) == (2, 1, "model.npz")
    assert "2 of 2 workers go on at step 0" in found["events"][0]
    assert (tmp_path / "kept" / "train.checkpoint").exists()
    with numpy.load(tmp_path / "model.npz") as saved:
        assert sorted(array.size for array in saved.values()) == [1, 8, 8, 32]
    done = run("train", "train.py:fit", *options[:-1])
    assert done.exit_code == 0
    assert "1 epochs, 1 updates, 2 workers" in done.stdout
    assert "written to model.npz" in done.stdout


def test_a_mesh_and_a_layout(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    options = ("--how", "sharded", "--workers", "5", "--mesh", "2", "2", "--layout", "0.weight=-,depth")
    done = run("train", "train.py:fit", *options)
    assert done.exit_code == 2
    assert "mesh=(2, 2): that is 4 devices, and workers=5" in done.stderr.replace("\n", " ")
    assert "layout={'0.weight': (None, 'depth')}" in done.stderr.replace("\n", " ")
    said = run("train", "train.py:fit", "--how", "sharded", "--workers", "2", "--layout", "foo").stderr
    assert "--layout 'foo': expected PATTERN=AXES, such as 0.weight=model,-" in said.replace("\n", " ")


LOST = """
import os

CALLER = os.getpid()
built = fit.build


def build_elsewhere():
    if os.getpid() == CALLER:
        raise OSError("no such file here")
    return built()


lost = tenfold.Fit(build_elsewhere, (x, x[:, :1]), epochs=1)
"""


def test_a_model_is_not_lost_where_it_cannot_be_saved(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + LOST)
    (tmp_path / "file").touch()
    for path, said in (("m.keras", "expected a name that ends with .pt, .pth or .npz"), ("file/m.pt", "folder")):
        done = run("train", "train.py:fit", "--workers", "1", "--save", path)
        assert done.exit_code == 2
        assert said in done.stderr.replace("\n", " ")
    done = run("train", "train.py:lost", "--workers", "1", "--save", "new/m.pt")
    assert done.exit_code == 2
    assert "OSError: no such file here; its weights are in new/m.pt.npz" in done.stderr.replace("\n", " ")
    assert (tmp_path / "new" / "m.pt.npz").exists()
