"""A `Fit` gives the same models on every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
from tenfold import engines

_SCRIPT = """
    import sys
    sys.path.insert(0, {folder!r})
    import fits
    fits.main()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # With Keras on JAX in the caller, too, so that the serial engine can fuse in the caller's own process.
    variables = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
    text = _SCRIPT.format(folder=str(Path(__file__).parent))
    ended = scripts.run(tmp_path_factory.mktemp("fits"), text, variables, seconds=240)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keras", "torch"])
def test_models_are_fused_and_the_same_on_every_engine(name: str, trained: dict[str, Any]) -> None:
    found = trained[name]
    assert set(found) == set(engines.names())
    first = found["local"]["numbers"]
    assert len({str(model) for model in first}) == len(first), "the models must differ, or this test shows nothing"
    for engine, one in found.items():
        assert all(how.startswith("fused") for how in one["how"]), f"{engine}: {one['how']}"
        numpy.testing.assert_allclose(one["numbers"], first, rtol=1e-4, atol=1e-6, err_msg=engine)


@pytest.mark.slow
def test_without_processes_the_callers_backend_is_used_and_said(tmp_path: Path) -> None:
    text = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import fits, tenfold
        fit = tenfold.Fit(fits.in_keras, (fits.X, fits.Y), epochs=1)
        results = tenfold.map(fit, fits.ITEMS[:2], engine="serial", progress=False)
        print(results[0].how, results[0].model())
        tenfold.tune(fit, {{"lr": [0.1]}}, engine="serial", progress=False)
    """
    ended = scripts.run(tmp_path, text, {"KERAS_BACKEND": "torch"}, seconds=120)
    assert "alone: Keras in this process has the torch backend" in ended.out
    assert "UserWarning: Keras in this process has the torch backend" in ended.err
    assert "this study is another one than on engines with processes" in ended.err
