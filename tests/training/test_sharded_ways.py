"""Tensor parallelism and pipelines of PyTorch: each holds a part, and the result is that of one that holds all."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import shards
import torch

import tenfold
from tenfold.errors import BadCall
from tenfold.training.cutting import cuts, pairs
from tenfold.training.staging import staged

NEAR = 1e-5
NN = torch.nn


def absolute(outputs: Any, targets: Any) -> Any:
    return (outputs - targets).abs().mean()


def words(optimizer: str = "adam", dropout: float = 0.0) -> Any:
    """Layers in several groups of the optimizer, of which some work in place, and some have nothing to learn."""
    import torch

    nn = torch.nn
    first, middle = nn.Sequential(nn.Embedding(30, 64, padding_idx=0), nn.Flatten()), nn.Linear(320, 8)
    last = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 112), nn.ReLU(inplace=True), nn.Linear(112, 1))
    module = nn.Sequential(first, middle, nn.ReLU(inplace=True), nn.LayerNorm(8), nn.Dropout(dropout), last)
    groups = [{"params": list(part.parameters()), "lr": rate} for part, rate in ((first, 0.01), (last, 0.003))]
    groups.append({"params": [*middle.parameters(), *module[3].parameters()], "lr": 0.002})
    made = torch.optim.Adam(groups) if optimizer == "adam" else torch.optim.SGD(groups, momentum=0.9)
    return module, nn.MSELoss(), made


def rows(size: int) -> tuple[Any, dict[str, Any]]:
    """Data whose rows have weights, and settings; the last of the batches has 1 of 49 rows, or 9."""
    x = numpy.random.default_rng(1).integers(0, 30, size=(61, 5))
    data = x, x.sum(1, keepdims=True).astype("float32") / 50, numpy.linspace(0.1, 2, 61).astype("float32")
    return data, {"epochs": 2, "batch_size": size, "validation": 0.2, "metrics": [absolute]}


def compared(params: dict[str, Any], size: int, **options: Any) -> tuple[Any, float]:
    """What came of it, and how far it is from training by one, whose weights have the same names."""
    data, settings = rows(size)
    params = {"seed": 1, **params}
    trained = tenfold.train(
        tenfold.Fit(words, data, **settings), params, how="sharded", cpus=0.5, progress=False, **options
    )
    (whole,) = tenfold.map(tenfold.Fit(words, data, how="alone", **settings), [params], workers=1, progress=False)
    assert list(trained.weights) == list(whole.weights)
    return trained, shards.furthest(trained, whole)


def near(trained: Any, share: float, by: float) -> bool:
    """Whether each worker held about this share of both."""
    held = [one.parameters / trained.whole.parameters for one in trained.shares]
    held += [one.optimizer / trained.whole.optimizer for one in trained.shares]
    return held == [pytest.approx(share, abs=by)] * len(held)


@pytest.mark.parametrize(("optimizer", "dropout"), [("sgd", 0.5), ("adam", 0.0)])
def test_weights_that_are_cut(optimizer: str, dropout: float) -> None:
    trained, error = compared({"optimizer": optimizer, "dropout": dropout}, 20, workers=2, mesh=(1, 2))
    assert error < NEAR
    assert near(trained, 0.5, 0.02)
    assert trained.updates == 2 * 3


@pytest.mark.parametrize(("optimizer", "size"), [("sgd", 59), ("adam", 31)])
def test_rows_and_model_on_four(optimizer: str, size: int) -> None:
    """Of 60 rows, the last batch has 1, so that half of the workers have none, or 29.

    With Adam and 1 row, plain FSDP2 is 2e-5 from training by one, too: it makes gradients large that are almost zero.
    """
    params, settings = {"optimizer": optimizer, "width": 128, "seed": 3}, {"batch_size": size, "metrics": ["accuracy"]}
    fit = shards.fit(shards.in_torch, **settings)
    trained = tenfold.train(fit, params, how="sharded", workers=4, mesh=(2, 2), cpus=0.5, progress=False)
    assert shards.furthest(trained, shards.alone(shards.in_torch, params, **settings)) < NEAR
    assert near(trained, 0.25, 0.02)
    assert sum(array.nbytes for array in trained.weights.values()) == trained.whole.parameters


@pytest.mark.parametrize(("optimizer", "workers", "size"), [("sgd", 2, 20), ("adam", 4, 16)])
def test_stages(optimizer: str, workers: int, size: int) -> None:
    trained, error = compared({"optimizer": optimizer}, size, workers=workers, stages=2)
    assert error < NEAR
    assert near(trained, 1 / workers, 0.05)


def summed() -> Any:
    module, _, optimizer = shards.in_torch()
    optimizer.param_groups[0]["lr"] = 0.004
    return (
        module,
        lambda outputs, targets: len(targets) * torch.nn.functional.cross_entropy(outputs, targets),
        optimizer,
    )


@pytest.mark.parametrize("options", [{"stages": 2}, {}])
def test_a_loss_that_sums_and_early_stopping(options: dict[str, Any]) -> None:
    settings = {"epochs": 30, "callbacks": [tenfold.EarlyStopping("val_loss", patience=1)]}
    fit = shards.fit(summed, **settings)
    trained = tenfold.train(fit, {"seed": 3}, how="sharded", workers=2, cpus=1, progress=False, **options)
    whole = shards.alone(summed, {"seed": 3}, **settings)
    assert trained.result.best_epoch == whole.best_epoch
    assert trained.result.epochs == whole.epochs < 30
    assert shards.furthest(trained, whole) < 2 * NEAR  # losses of 15 rows together are up to 15 times as large


# -- what is cut, without a worker ------------------------------------------------------------------------------------


def test_which_weights_are_cut() -> None:
    chain = NN.Sequential(NN.Linear(12, 128), NN.ReLU(), NN.Linear(128, 64), NN.Linear(64, 64), NN.Linear(64, 2))
    assert cuts(chain, 2, {}) == {"0": 0, "2": 1, "3": 0}
    assert pairs(chain, {"0": 0, "2": 1, "3": 0}) == [("0", "2")]
    given = cuts(chain, 2, {"0.weight": ("model", None), "2": ("model", None), "3": (None, None)})
    assert given == {"0": 0, "2": 0}
    assert pairs(chain, given) == []
    assert cuts(NN.Sequential(NN.Linear(64, 128), NN.Dropout(0.5), NN.Linear(128, 64)), 2, {}) == {"0": 0, "2": 1}
    assert cuts(NN.Sequential(NN.Embedding(1000, 64), NN.Embedding(1000, 9)), 2, {}) == {"0": 1, "1": 0}


def test_weights_in_several_places_stay_whole() -> None:
    one, other = NN.Linear(64, 64), NN.Linear(64, 64)
    other.weight = one.weight
    assert cuts(NN.Sequential(one, other, NN.Linear(64, 64)), 2, {}) == {"2": 0}
    assert cuts(NN.TransformerEncoderLayer(64, 4, 128), 2, {}) == {"linear1": 0, "linear2": 1}


def test_which_layers_are_in_which_stage() -> None:
    chain = NN.Sequential(NN.Linear(8, 8), NN.Sequential(NN.ReLU(), NN.Linear(8, 8)), NN.Linear(8, 24), NN.Tanh())
    assert [[name for name, _ in layers] for layers in staged(chain, 2)] == [["0", "1.0", "1.1"], ["2", "3"]]
    assert [[name for name, _ in layers] for layers in staged(chain, 3)] == [["0", "1.0"], ["1.1"], ["2", "3"]]


class Own(NN.Module):
    pass


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (Own(), "expected a torch.nn.Sequential.*is of Own"),
        (NN.Sequential(NN.Linear(2, 2), NN.ReLU()), r"1 layers with parameters \(0\)"),
        (NN.Sequential(NN.Linear(2, 2), NN.BatchNorm1d(2)), "layer 1 has batch norm"),
        (NN.Sequential(*[NN.Linear(2, 2)] * 2), "layer 1 shares a parameter with one of stage 0"),
    ],
)
def test_modules_that_have_no_stages(module: Any, told: str) -> None:
    with pytest.raises(BadCall, match=f"stages=2: .*{told}"):
        staged(module, 2)


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ({"5": ("model", None)}, r"'5' is in the name of no weight that can be cut: 0.weight \(9, 12\)"),
        ({"0": ("model", None)}, r"0.weight has the shape \(9, 12\), and 2 does not divide 9"),
        ({"0": ("rows", None)}, r"expected \(None, None\), \('model', None\)"),
        ({}, "no weight is cut in 2.*without mesh= and layout=, any module is divided"),
    ],
)
def test_layouts_that_cannot_be(layout: Any, told: str) -> None:
    with pytest.raises(BadCall, match=told):
        cuts(NN.Sequential(NN.Linear(12, 9)), 2, layout)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 3, "stages": 2}, "stages=2: workers=3 cannot be divided into pipelines of 2"),
        ({"workers": 2, "stages": 1}, "stages=1: expected a whole number above 1"),
        ({"workers": 2, "stages": 2, "mesh": (1, 2)}, "stages=: not with mesh= or layout="),
        ({"workers": 2, "layout": {"a": (["model"], None)}}, "layout=.*expected a dict of patterns"),
        ({"workers": 2, "layout": {"*": ("model", None)}}, r"layout: '\*' is no regular expression: nothing to repeat"),
        ({"workers": 2, "stages": 2, "how": "synchronous"}, 'stages=2: only with how="sharded"'),
    ],
)
def test_calls_that_cannot_be(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadCall, match=told):
        tenfold.train(shards.fit(shards.in_torch), **{"how": "sharded", **options})


def test_what_only_a_worker_sees_is_refused_before_the_first_step() -> None:
    with pytest.raises(BadCall, match="no weight is cut in 2"):
        tenfold.train(shards.fit(shards.in_torch), {"width": 9}, how="sharded", workers=2, mesh=(1, 2), progress=False)
