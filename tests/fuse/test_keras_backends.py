"""Keras on TensorFlow and on PyTorch: a model alone is that of `model.fit`, and callers get what is fused on JAX.

The scripts run side by side, each once; a test judges what they printed.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import scripts

HERE = Path(__file__).parent
CASES = ("numbers: momentum of SGD; mae", "weights: of samples", "schedules: CosineDecay of Adam, clipnorm")

_ALONE = """
    import sys
    sys.path.insert(0, {here!r})
    import keras_backends
    keras_backends.main({names!r})
"""
_CALLER = """
    import json, os
    import keras
    import numpy
    import tenfold

    x = numpy.random.default_rng(0).normal(size=(60, 5)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")

    def build(lr, told=True):
        import keras
        from keras import layers
        hidden = [layers.Dense(4, use_bias=False), layers.BatchNormalization(), layers.Dropout(0.2)]
        first = [keras.Input((5,))] if told else []
        model = keras.Sequential([*first, *hidden, layers.Dense(2, "softmax")])
        model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
        return model

    class Noting(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            with open("noted", "a") as file:
                file.write(json.dumps([epoch, os.getpid(), keras.backend.backend(), len(self.model.weights), logs]))
                file.write("\\n")

    items = [dict(lr=0.01 * n, seed=n) for n in (1, 2, 3)]
    results = tenfold.map(tenfold.Fit(build, (x, y), epochs=2, how="fused"), items, workers=1, progress=False)
    models = [result.model() for result in results]
    watched = tenfold.Fit(build, (x, y), epochs=2, callbacks=[Noting()])
    (alone,) = tenfold.map(watched, [items[0] | dict(told=False)], workers=1, progress=False)
    print(json.dumps(dict(
        backend=keras.backend.backend(),
        pid=os.getpid(),
        how=[result.how for result in results],
        same=[
            all(a.dtype == b.dtype and (a == b).all() for a, b in zip(m.get_weights(), r.weights, strict=True))
            for m, r in zip([*models, alone.model()], [*results, alone], strict=True)
        ],
        differ=bool((results[0].weights[0] != results[1].weights[0]).any()),
        alone=[alone.how, alone.history],
        noted=[json.loads(line) for line in open("noted")],
    )))
"""
SCRIPTS = {
    "tensorflow": ("tensorflow", _ALONE.format(here=str(HERE), names=CASES)),
    "torch": ("torch", _ALONE.format(here=str(HERE), names=CASES)),
    "caller": ("torch", _CALLER),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("backends")
    with contextlib.ExitStack() as stack:
        running = {}
        for name, (backend, text) in SCRIPTS.items():
            variables = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
            running[name] = stack.enter_context(scripts.started(folder, text, variables, f"of_{name}"))
        ended = {name: script.end(200) for name, script in running.items()}
    for one in ended.values():
        assert one.status == 0, one.err
    return {name: json.loads(one.out.splitlines()[-1]) for name, one in ended.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_model_alone_is_that_of_model_fit(backend: str, name: str, told: dict[str, Any]) -> None:
    assert told[backend]["backend"] == backend
    found = told[backend]["found"][name]
    assert found["learned"] > 0
    assert found["names"] == []
    assert found["epochs"][0] == found["epochs"][1] > 1
    for what in ("weights", "history"):
        share, difference, where = found[what]
        assert share <= 1, f"{what} of {where} are {difference:.3g} apart"


@pytest.mark.slow
def test_a_caller_on_pytorch_gets_models_that_were_fused_on_jax(told: dict[str, Any]) -> None:
    found = told["caller"]
    assert found["backend"] == "torch"
    assert all(how.startswith("fused: 3 models") for how in found["how"])
    assert found["same"] == [True] * 4, "the last one knows its inputs only from data"
    assert found["differ"]


@pytest.mark.slow
def test_other_callbacks_are_called_where_a_model_is_trained_alone(told: dict[str, Any]) -> None:
    found = told["caller"]
    how, history = found["alone"]
    assert how == "alone: the callback Noting wants to see the model while it is trained"
    assert [epoch for epoch, *_ in found["noted"]] == [0, 1]
    for epoch, pid, backend, weights, logs in found["noted"]:
        assert pid != found["pid"]
        assert (backend, weights) == ("torch", 7), "the caller's backend, and the model itself"
        assert logs["loss"] == history["loss"][epoch]
