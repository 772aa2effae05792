"""Data that is read block by block: one read feeds all models, each of which is what it is when trained alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases
from torch import nn

import scripts
from tenfold.fuse import columns, reading
from tenfold.fuse.fit import Fit

ROWS = 100
BLOCKS = 5 + 2
"""Of 16 rows, to train on 80 and to score 20."""

_SCRIPT = """
    import json
    import numpy
    import tenfold
    from tenfold.fuse import columns

    columns.STREAM_ABOVE = 1000  # what takes a gigabyte takes too long for a test

    def build(lr, kept):
        import keras
        from tenfold.fuse import columns, reading
        columns.BLOCK = 48 * 20
        if not hasattr(reading, "plain"):
            reading.plain = reading._read
        def read(*block):
            with open(kept, "a") as file:
                file.write("read\\n")
            return reading.plain(*block)
        reading._read = read
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(lr), "mse")
        return model

    found = {}
    for how in ("fused", "alone"):
        fit = tenfold.Fit(build, ("x.npy", "y.npy"), epochs=3, batch_size=8, validation=0.2, how=how)
        assert fit.data.streams
        results = tenfold.map(fit, [dict(lr=0.01 * n, seed=n, kept=how) for n in (1, 2, 3)], workers=1, progress=False)
        found[how] = [[r.history, [w.tolist() for w in r.weights], r.how] for r in results]
    fit = tenfold.Fit(build, ("x.npy", "y.npy"), epochs=2, batch_size=8, validation=0.2)
    item = dict(lr=0.01, seed=1, kept="own", rows=numpy.arange(0, 100, 2))
    (own,) = tenfold.map(fit, [item], workers=1, progress=False)
    print(json.dumps(dict(streamed=found, own=[own.history, own.how], reads=len(open("fused").readlines()))))
"""


@pytest.mark.slow
def test_streamed_models_are_those_that_are_trained_alone(tmp_path: Path) -> None:
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(ROWS, 5))
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "y.npy", x.sum(axis=1))
    variables = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
    ended = scripts.run(tmp_path, _SCRIPT, variables, seconds=120)
    told = json.loads(ended.out.splitlines()[-1])
    found, (own_history, own_how) = told["streamed"], told["own"]
    assert told["reads"] == 3 * BLOCKS, "once an epoch for all three models"
    assert "rows of their own" in own_how
    assert own_how.startswith("alone")
    assert len(own_history["val_loss"]) == 2
    for (history, weights, how), (other_history, other_weights, other_how) in zip(*found.values(), strict=True):
        assert how.startswith("fused")
        assert other_how.startswith("alone")
        assert history["loss"][0] > history["loss"][-1]
        for name, values in history.items():
            numpy.testing.assert_allclose(values, other_history[name], rtol=1e-4)
        for one, other in zip(weights, other_weights, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


# -- PyTorch ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows were read, block by block."""
    found: list[int] = []
    plain = reading._read

    def read(block: Any, rows: Any = None) -> Any:
        found.append(len(block))
        return plain(block, rows)

    monkeypatch.setattr(columns, "STREAM_ABOVE", 1000)
    monkeypatch.setattr(columns, "BLOCK", 48 * 20)
    monkeypatch.setattr(reading, "_read", read)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield found
    torch.set_num_threads(before)


@pytest.mark.parametrize("how", ["fused", "looped"])
def test_one_read_feeds_all_models_of_pytorch(how: Any, reads: list[int], tmp_path: Path) -> None:
    x = numpy.random.default_rng(0).normal(size=(ROWS, 5))
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "y.npy", x.sum(axis=1, keepdims=True))

    def build(lr: float) -> Any:
        module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
        return module, nn.MSELoss(), torch.optim.Adam(module.parameters(), lr=lr)

    fit = Fit(build, (tmp_path / "x.npy", tmp_path / "y.npy"), epochs=3, batch_size=8, validation=0.2, how=how)
    assert fit.data.streams
    params = [{"lr": 0.01 * n, "seed": n} for n in (1, 2, 3)]
    found = cases.together(fit, params, tmp_path)
    assert sorted(reads) == sorted([16] * 5 * 3 + [16, 4] * 3), "each block once an epoch, for all three models"
    for one, (history, weights, _) in zip(found, cases.alone(fit, params), strict=True):
        assert one.how.startswith(how)
        assert history["loss"][-1] < history["loss"][0]
        cases.check_same(one, history, weights)
    assert len(reads) == (1 + 3) * 3 * BLOCKS, "alone, each reads for itself"
