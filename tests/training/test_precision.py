"""Mixed precision: near to float32, for any number of workers, with weights that stay float32."""

from __future__ import annotations

from typing import Any

import nets
import numpy
import pytest

import tenfold
from tenfold.errors import BadCall

NEAR = 2e-2  # after 12 steps; bfloat16 has 8 bits of mantissa, so that each product is right to 4e-3
EPOCHS = 2
PARAMS = {"seed": 3, "optimizer": "sgd"}


def build_mixed(policy: str) -> Any:
    import keras

    keras.config.set_dtype_policy(policy)
    try:
        return nets.build_keras()
    finally:
        keras.config.set_dtype_policy("float32")


def build_by_hand(optimizer: str) -> Any:
    """What PyTorch's own pages say to do."""
    import torch

    module, loss, made = nets.build(optimizer)

    class ByHand(torch.nn.Sequential):
        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x).float()

    return ByHand(*module), loss, made


def test_modules_of_pytorch() -> None:
    fit = nets.fit(epochs=EPOCHS)
    settings: dict[str, Any] = {"precision": "bfloat16", "progress": False}
    by_hand = tenfold.map(nets.fit(build_by_hand, epochs=EPOCHS, how="alone"), [PARAMS], workers=1, progress=False)[0]
    full = tenfold.train(fit, PARAMS, workers=1, progress=False)
    one = tenfold.train(fit, PARAMS, workers=1, **settings)
    two = tenfold.train(fit, PARAMS, workers=2, **settings)
    parts = tenfold.train(fit, PARAMS, workers=2, how="sharded", **settings)
    assert nets.furthest(one.weights, by_hand.weights) < 1e-5
    for found in (one, two, parts):
        assert {array.dtype for array in found.weights.values()} == {numpy.dtype("float32")}
        assert 1e-6 < nets.furthest(found.weights, full.weights) < NEAR, "as near as it is, and not the same"
        numpy.testing.assert_allclose(found.history["loss"], full.history["loss"], atol=NEAR)


@pytest.mark.parametrize("policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_models_of_keras_have_it_in_their_layers(policy: str) -> None:
    params = {"seed": 3, "policy": policy}
    fit = nets.fit(build_mixed, epochs=EPOCHS)
    alone = tenfold.map(nets.fit(build_mixed, epochs=EPOCHS, how="alone"), [params], workers=1, progress=False)[0]
    trained = tenfold.train(fit, params, workers=2, progress=False)
    for one, other in zip(trained.weights, alone.weights, strict=True):
        assert one.dtype == numpy.float32
        numpy.testing.assert_allclose(one, other, atol=NEAR)
    numpy.testing.assert_allclose(trained.history["loss"], alone.history["loss"], atol=NEAR)


def test_what_cannot_be_computed_so_is_refused() -> None:
    with pytest.raises(BadCall, match="precision='float16': expected 'bfloat16'"):
        tenfold.train(nets.fit(), PARAMS, precision="float16")  # type: ignore[arg-type]
    with pytest.raises(BadCall, match=r'precision=.*set_dtype_policy\("mixed_bfloat16"\)'):
        tenfold.train(nets.fit(nets.build_keras), {}, precision="bfloat16")
