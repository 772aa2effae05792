"""`tenfold.tune` with a `Fit` of Keras models: fused over trials and folds, promoted, and as Keras's own loop has it.

In a process of its own, which has Keras on JAX as the workers of groups have: others draw other initial weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts

_STUDY = """
    import json, sys
    sys.modules["tensorflow"] = None  # Keras would import it, for seconds
    import numpy
    import tenfold

    X = numpy.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    Y = X.sum(axis=1, keepdims=True)

    def build(lr):
        import keras
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(lr), "mse")
        return model

    def told(result):
        return {"history": result.history, "weights": [array.tolist() for array in result.weights], "how": result.how}

    fit = tenfold.Fit(build, (X, Y), epochs=4, batch_size=16)
    study = tenfold.tune(
        fit, {"lr": tenfold.loguniform(1e-3, 1e-1)}, trials=4, cv=2, pruner=tenfold.Asha(least=1, factor=2),
        workers=1, progress=False,
    )
    caller = "keras" in sys.modules
    folds = study.best.result
    alone = tenfold.Fit(build, (X, Y), epochs=4, batch_size=16, how="alone")
    whole = {**study.best.params, "seed": folds[0].params["seed"]}
    *expected, whole = tenfold.map(alone, [*(fold.params for fold in folds), whole], engine="serial", progress=False)
    print(json.dumps({
        "how": [result.how for result in study.results],
        "steps": [trial.steps for trial in study.trials],
        "reports": len(list(study.results.reports())),
        "value": study.best.value,
        "caller has keras": caller,
        "found": [told(fold) for fold in folds],
        "expected": [told(fold) for fold in expected],
        "model": [array.tolist() for array in study.best.model.get_weights()],
        "whole": told(whole),
    }))
"""
VARIABLES = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", **scripts.HASTY}


def check_arrays(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_promoted_folds_are_fused_and_end_as_if_never_interrupted(tmp_path: Path) -> None:
    variables = {**VARIABLES, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    variables["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    told = json.loads(scripts.run(tmp_path, _STUDY, variables).out.splitlines()[-1])
    assert sorted(told["steps"]) == [1, 1, 2, 4]
    assert all(how.startswith("fused") for how in told["how"]), told["how"]
    assert any("8 models" in how for how in told["how"]), "trials and folds together"
    assert told["reports"] == 2 * sum(told["steps"]), "no epoch is trained twice"
    assert told["caller has keras"] is False
    assert told["value"] == pytest.approx(numpy.mean([one["history"]["val_loss"][-1] for one in told["found"]]))
    for found, expected in zip(told["found"], told["expected"], strict=True):
        assert expected["how"].startswith("alone")
        assert len(found["history"]["val_loss"]) == 4
        for name, values in expected["history"].items():
            numpy.testing.assert_allclose(found["history"][name], values, rtol=1e-3, err_msg=name)
        check_arrays(found["weights"], expected["weights"])
    check_arrays(told["model"], told["whole"]["weights"])
