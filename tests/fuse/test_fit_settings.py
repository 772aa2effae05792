"""What a script sets in all of a framework is for its models, wherever they are trained."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import scripts
from tenfold.fuse import settings

_SCRIPT = """
    import json
    import keras
    import numpy
    import tenfold
    import torch

    from tenfold.fuse import settings

    keras.layers.Dense(1)  # from here on, Keras has noted its own policy
    of_nobody = settings.chosen()
    keras.config.set_dtype_policy("mixed_bfloat16")
    torch.set_default_dtype(torch.float64)
    x = numpy.random.default_rng(0).normal(size=(40, 5))
    y = (x[:, 0] > 0).astype("int64")

    def of_keras(lr=0.1):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2, "softmax")])
        model.compile(keras.optimizers.SGD(lr), "sparse_categorical_crossentropy")
        return model

    def of_torch(lr=0.1):
        module = torch.nn.Linear(5, 2)
        return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)

    found = {}
    for build in (of_keras, of_torch):
        for how in ("fused", "alone"):
            fit = tenfold.Fit(build, (x, y), epochs=2, how=how)
            both = [tenfold.map(fit, [dict(seed=n) for n in range(2)], engine=engine, workers=1, progress=False)
                    for engine in ("serial", "local")]
            found[f"{build.__name__}, {how}"] = [[r.how.partition(":")[0], r.history["loss"]] for (r, _) in both]
    fit = tenfold.Fit(of_torch, (x, y), epochs=1)
    ways = ({"workers": 1}, {"workers": 2, "how": "sharded"})
    trained = [tenfold.train(fit, progress=False, **way) for way in ways]
    kinds = {str(array.dtype) for one in trained for array in one.weights.values()}
    policy = keras.config.dtype_policy().name
    print(json.dumps([found, sorted(kinds), str(torch.get_default_dtype()), policy, of_nobody]))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    variables = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", **scripts.HASTY}
    ended = scripts.run(tmp_path_factory.mktemp("settings"), _SCRIPT, variables)
    return list(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["of_keras, fused", "of_keras, alone", "of_torch, fused", "of_torch, alone"])
def test_workers_train_what_the_caller_would(name: str, told: list[Any]) -> None:
    here, there = told[0][name]
    assert here[0] == there[0] == name.partition(", ")[2]
    assert there[1] == pytest.approx(here[1], rel=1e-6), "float32 would be 1e-3 apart"


@pytest.mark.slow
def test_so_does_train_and_the_caller_keeps_its_own(told: list[Any]) -> None:
    _, kinds, default, policy, _ = told
    assert kinds == ["float64"]
    assert (default, policy) == ("torch.float64", "mixed_bfloat16")


@pytest.mark.slow
def test_a_layer_that_was_made_before_is_no_setting(told: list[Any]) -> None:
    assert told[4] == {}


def test_only_what_was_set_is_taken_along_and_it_is_undone() -> None:
    assert settings.chosen().get("torch.default_dtype") is None
    with settings.applied({"torch.default_dtype": "float64"}):
        assert settings.chosen()["torch.default_dtype"] == "float64"
        assert torch.ones(1).dtype == torch.float64
    assert torch.get_default_dtype() == torch.float32
