"""`train` on every engine: the same weights, also when a worker is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test

import lossy
import tenfold
from tenfold.errors import BadCall

FIT = tenfold.Fit(lossy.build, (lossy.X, lossy.Y), epochs=6, batch_size=20, validation=0.2)


@pytest.fixture(scope="module")
def one() -> Any:
    return tenfold.train(FIT, {"seed": 1}, workers=1, progress=False)


def test_workers_of_any_engine_train_what_one_trains(engine: str, one: Any, tmp_path: Path) -> None:
    if engine == "serial":
        with pytest.raises(BadCall, match="only 1 can work at once"):
            tenfold.train(FIT, {"seed": 1}, workers=2, engine=engine, progress=False)
        found = [tenfold.train(FIT, {"seed": 1}, workers=1, engine=engine, progress=False)]
    else:
        lossy = {"seed": 1, "folder": str(tmp_path), "pooled": engine == "joblib"}
        found = [tenfold.train(FIT, p, workers=2, engine=engine, progress=False) for p in ({"seed": 1}, lossy)]
        assert (tmp_path / "killed").exists()
        assert found[1].workers == 2 or engine != "joblib", "all are lost with its pool, and all come again"
        counted = tenfold.train(FIT, {"seed": 1}, workers=2, how="asynchronous", engine=engine, progress=False)
        assert counted.updates == 6 * 6
    for trained in found:
        for name, weights in one.weights.items():
            numpy.testing.assert_allclose(trained.weights[name], weights, atol=1e-5)
        numpy.testing.assert_allclose(trained.history["val_loss"], one.history["val_loss"], rtol=1e-4)


def test_a_divided_model_is_trained_on_any_engine(engine: str, one: Any) -> None:
    options: dict[str, Any] = {"how": "sharded", "workers": 2, "cpus": 1, "engine": engine, "progress": False}
    if engine == "serial":
        with pytest.raises(BadCall, match="processes that run at once, and it has none"):
            tenfold.train(FIT, {"seed": 1}, **options)
        return
    trained = tenfold.train(FIT, {"seed": 1}, **options)
    for name, weights in one.weights.items():
        numpy.testing.assert_allclose(trained.weights[name], weights, atol=1e-5)
    numpy.testing.assert_allclose(trained.history["val_loss"], one.history["val_loss"], rtol=1e-4)
    assert len(trained.shares) == 2
    assert all(share.parameters < 0.7 * trained.whole.parameters for share in trained.shares)
