"""The same training gives bit-equal weights on every engine, with any number of workers, and in a plain loop.

In scripts, so that no framework is imported by the tests' own process.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scripts

_SCRIPT = """
    import sys
    sys.path.insert(0, {folder!r})
    import trainings
    trainings.main({names!r})
"""
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "variables"),
    [
        ({"in_numpy": 6, "in_torch": 3}, {}),
        ({"in_keras": 2}, {"KERAS_BACKEND": "tensorflow", **QUIET}),
        ({"in_keras": 2}, {"KERAS_BACKEND": "jax", **QUIET, **scripts.HASTY}),
    ],
    ids=["NumPy and PyTorch", "Keras on TensorFlow", "Keras on JAX"],
)
def test_training_is_bit_equal_on_every_engine(
    names: dict[str, int], variables: dict[str, str], tmp_path: Path
) -> None:
    text = _SCRIPT.format(folder=str(Path(__file__).parent), names=names)
    ended = scripts.run(tmp_path, text, variables, seconds=240)
    for found in json.loads(ended.out.splitlines()[-1]).values():
        expected = found["a plain loop"]
        assert len(set(expected)) == len(expected), "the tasks must differ, or this test shows nothing"
        differing = {how: digests for how, digests in found.items() if digests != expected}
        assert not differing, f"expected {expected}"
