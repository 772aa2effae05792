"""Data that is read block by block: one read feeds all models, each of which is what it is when trained alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

import scripts

_SCRIPT = """
    import json
    import numpy
    import tenfold
    from tenfold.fuse import columns

    columns.STREAM_ABOVE = 1000  # what takes a gigabyte takes too long for a test

    def build(lr):
        import keras
        from tenfold.fuse import columns
        columns.BLOCK = 48 * 20
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(lr), "mse")
        return model

    found = {}
    for how in ("fused", "alone"):
        fit = tenfold.Fit(build, ("x.npy", "y.npy"), epochs=3, batch_size=8, validation=0.2, how=how)
        assert fit.data.streams
        results = tenfold.map(fit, [dict(lr=0.01 * n, seed=n) for n in (1, 2, 3)], workers=1, progress=False)
        found[how] = [[r.history, [w.tolist() for w in r.weights], r.how] for r in results]
    fit = tenfold.Fit(build, ("x.npy", "y.npy"), epochs=2, batch_size=8, validation=0.2)
    (own,) = tenfold.map(fit, [dict(lr=0.01, seed=1, rows=numpy.arange(0, 100, 2))], workers=1, progress=False)
    print(json.dumps(dict(streamed=found, own=[own.history, own.how])))
"""


@pytest.mark.slow
def test_streamed_models_are_those_that_are_trained_alone(tmp_path: Path) -> None:
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(100, 5))
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "y.npy", x.sum(axis=1))
    variables = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
    ended = scripts.run(tmp_path, _SCRIPT, variables, seconds=120)
    told = json.loads(ended.out.splitlines()[-1])
    found, (own_history, own_how) = told["streamed"], told["own"]
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
