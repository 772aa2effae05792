"""`tenfold.train(how="sharded")`: each holds a part, and the result is that of one that holds all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
import shards
import torch

import scripts
import tenfold
from tenfold.errors import BadCall, DoesNotFit
from tenfold.training.sharded_keras import check_backend
from tenfold.training.sharding import cut

NEAR = 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_module_in_two_parts(optimizer: str) -> None:
    params = {"optimizer": optimizer, "seed": 3}
    fit = shards.fit(shards.in_torch, metrics=["accuracy"])
    trained = tenfold.train(fit, params, how="sharded", workers=2, cpus=1, progress=False)
    assert shards.furthest(trained, shards.alone(shards.in_torch, params, metrics=["accuracy"])) < NEAR
    assert [share.device for share in trained.shares] == ["worker 0", "worker 1"]
    for share in trained.shares:
        assert share.parameters / trained.whole.parameters == pytest.approx(0.5, abs=0.02)
        assert share.optimizer / trained.whole.optimizer == pytest.approx(0.5, abs=0.02)
    assert trained.updates == 3 * 2
    assert sum(array.nbytes for array in trained.weights.values()) == trained.whole.parameters


def weighing() -> Any:
    module, _, optimizer = shards.in_torch()
    return module, torch.nn.CrossEntropyLoss(torch.tensor([0.3, 2.0])), optimizer


def tying() -> Any:
    """The first weights are the last ones, too, as in models of language; a layer is in two places."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(12, 64), torch.nn.Linear(12, 64, bias=False)
            self.between = torch.nn.ModuleList([torch.nn.Linear(64, 64), torch.nn.Linear(64, 12)])
            self.again = torch.nn.Sequential(self.between[0], torch.nn.ReLU(), torch.nn.Linear(64, 64))
            self.last.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.last(self.between[1](self.again(self.between[0](self.first(x)))))[:, :2]

    module = Tied()
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), 0.01)


@pytest.mark.parametrize("mesh", [None, (1, 2)])
def test_weights_and_layers_in_several_places(mesh: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"workers": 2, "mesh": mesh, "run": tmp_path, "checkpoint": 2, "progress": False}
    trained = tenfold.train(shards.fit(tying), {"seed": 3}, how="sharded", **options)
    assert shards.furthest(trained, shards.alone(tying, {"seed": 3})) < NEAR
    assert all(share.parameters / trained.whole.parameters < 0.6 for share in trained.shares)


@pytest.mark.parametrize("options", [{"workers": 3}, {"workers": 2, "mesh": (1, 2)}])
def test_a_loss_that_divides_by_weights_of_targets(options: dict[str, Any]) -> None:
    """Of 60 rows, the last batch has 2, so that one of three workers has none."""
    settings = {"batch_size": 29, "epochs": 2}
    trained = tenfold.train(shards.fit(weighing, **settings), {"seed": 3}, how="sharded", progress=False, **options)
    assert shards.furthest(trained, shards.alone(weighing, {"seed": 3}, **settings)) < NEAR


def test_more_workers_than_rows_in_the_last_batch_and_early_stopping() -> None:
    params = {"optimizer": "adam", "seed": 3}
    stopping = tenfold.EarlyStopping("val_loss", patience=1)
    settings = {"batch_size": 29, "epochs": 30, "callbacks": [stopping]}  # 60 rows: the last batch has 2
    trained = tenfold.train(shards.fit(shards.in_torch, **settings), params, how="sharded", workers=3, progress=False)
    whole = shards.alone(shards.in_torch, params, **settings)
    assert trained.result.best_epoch == whole.best_epoch
    assert trained.result.epochs == whole.epochs < 30
    assert shards.furthest(trained, whole) < NEAR


@pytest.mark.parametrize(("how", "workers"), [("synchronous", 2), ("sharded", 3)])
def test_a_small_last_batch_of_batch_norm_and_constants(how: str, workers: int) -> None:
    fit = shards.fit(shards.with_norm, batch_size=19, epochs=2)  # 60 rows: the last batch has 3
    trained = tenfold.train(fit, {"seed": 3}, how=how, workers=workers, progress=False)
    assert trained.updates == 2 * 4
    assert numpy.array_equal(trained.weights["3.places"], numpy.arange(1, 50, dtype="float32") / numpy.float32(7))
    assert numpy.array_equal(trained.weights["3.mask"], [0, -numpy.inf])
    assert 0 < numpy.abs(trained.weights["1.running_mean"]).max() < 1


@pytest.fixture(scope="module")
def in_keras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("shards")
    text = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import shards
        shards.main({str(folder / "found")!r})
    """
    variables = {
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    scripts.run(folder, text, variables, seconds=240)
    return dict(json.loads((folder / "found").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "share"), [("two", 2, 0.52), ("mesh", 4, 0.6)])
def test_a_keras_model_on_the_devices_of_one_process(
    name: str, count: int, share: float, in_keras: dict[str, Any]
) -> None:
    found = in_keras[name]
    assert found["error"] < NEAR
    assert found["devices"] == [f"cpu:{number}" for number in range(count)]
    assert all(0.5 <= part < share for part in found["parameters"] + found["optimizer"]), found
    assert found["weights"] == 6
    assert min(found["spent"][part] for part in ("startup", "input", "compute")) > 0


@pytest.mark.slow
def test_a_keras_model_goes_on_when_its_process_is_killed(in_keras: dict[str, Any]) -> None:
    """That it is the same model in the end is seen above."""
    first, lost, again = in_keras["mesh"]["events"]
    assert first.endswith("from the beginning")
    assert "ended without a word" in lost
    assert again.endswith("start again from step 2")


@pytest.mark.slow
def test_a_keras_model_whose_loss_is_not_a_number_names_the_step(in_keras: dict[str, Any]) -> None:
    assert in_keras["diverged"].startswith("the loss is nan at step 1 (epoch 0, batch 1, rows 31, 32, 33"), in_keras


@pytest.mark.slow
def test_a_keras_layout_that_is_of_no_variable_is_refused(in_keras: dict[str, Any]) -> None:
    assert re.search(r"layout: 'dens_99' is in the path of no variable: .*dense/kernel", in_keras["refused"])


def test_where_a_matrix_is_cut() -> None:
    assert cut((100, 400), 4) == (None, "model")
    assert cut((401, 400), 4) == (None, "model"), "the longer one cannot be divided"
    assert cut((401, 403), 4) == (None, None)
    assert cut((4096,), 4) == (None,)
    assert cut((8, 8), 4) == (None, None), "it is small"
    assert cut((3, 3, 64, 128), 2) == (None, None, None, "model")


def test_what_cannot_be_divided_is_refused() -> None:
    fit = shards.fit(shards.in_torch)
    with pytest.raises(BadCall, match=r"mesh=\(2, 3\): that is 6 devices, and workers=4"):
        tenfold.train(fit, how="sharded", workers=4, mesh=(2, 3))
    with pytest.raises(BadCall, match='workers=None: how="sharded" divides the model; say into how many parts'):
        tenfold.train(fit, how="sharded")
    with pytest.raises(BadCall, match=r'mesh=.*only with how="sharded"'):
        tenfold.train(fit, workers=2, mesh=(1, 2))


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_keras_on_another_backend_is_told_the_way(backend: str) -> None:
    with pytest.raises(BadCall, match=f"its backend here is {backend}; set KERAS_BACKEND=jax"):
        check_backend(backend)


def test_a_model_that_has_no_room_is_told_to_be_divided() -> None:
    fit = shards.fit(shards.in_torch)
    with pytest.raises(DoesNotFit, match=r"4,0\d\d,\d\d\d parameters.*about .* MB.*how=\"sharded\""):
        tenfold.train(fit, {"width": 2000, "seed": 3}, workers=2, cpus=1, memory="70MB", retries=0, progress=False)
