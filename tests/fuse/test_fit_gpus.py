"""One program for each GPU: groups lease devices as any task does. The devices are pretended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scripts

_SCRIPT = """
    import json
    import numpy
    import tenfold

    x = numpy.random.default_rng(0).normal(size=(60, 5))

    def build(lr, folder):
        import keras, os, pathlib
        devices = os.environ["CUDA_VISIBLE_DEVICES"]
        (pathlib.Path(folder) / f"{devices} {os.getpid()}").touch()
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(lr), "mse")
        return model

    fit = tenfold.Fit(build, (x, x.sum(axis=1)), epochs=2)
    items = [dict(lr=0.01, seed=seed, folder="seen") for seed in range(4)]
    results = tenfold.map(fit, items, gpus=1, progress=False)
    print(json.dumps([result.how for result in results]))
"""


@pytest.mark.slow
def test_each_group_has_a_gpu_to_itself(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    ended = scripts.run(tmp_path, _SCRIPT, {"TENFOLD_GPUS": "2", "TF_CPP_MIN_LOG_LEVEL": "3"}, seconds=120)
    assert all(how.startswith("fused: 2 models") for how in json.loads(ended.out.splitlines()[-1]))
    seen = [path.name.split() for path in (tmp_path / "seen").iterdir()]
    assert sorted(devices for devices, _ in seen) == ["0", "1"], "one process on each"
