"""`tenfold.train` of a Keras model, on each backend: the same by any number of workers, also when one is killed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import scripts

BACKENDS = ("tensorflow", "jax", "torch")
VARIABLES = scripts.HASTY | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
_SCRIPT = """
    import sys
    sys.path.insert(0, {folder!r})
    import trained_keras
    trained_keras.main(".")
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each backend's process has found; all of them at once."""
    text = _SCRIPT.format(folder=str(Path(__file__).parent))
    with contextlib.ExitStack() as stack:
        running = {}
        for backend in BACKENDS:
            folder, variables = tmp_path_factory.mktemp(backend), VARIABLES | {"KERAS_BACKEND": backend}
            running[backend] = stack.enter_context(scripts.started(folder, text, variables))
        ended = {backend: script.end(200) for backend, script in running.items()}
    for backend, one in ended.items():
        assert one.status == 0, f"{backend}:\n{one.err}"
    return {backend: json.loads(one.out) for backend, one in ended.items()}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_train_what_one_trains(backend: str, answers: dict[str, Any]) -> None:
    found = answers[backend]
    for workers in (2, 4):
        there, apart = found[str(workers)]
        assert there == workers
        assert apart < 1e-5
    events, apart = found["killed"]
    assert any("worker 1 has ended; 1 of 2 are there" in event for event in events), events
    assert apart < 1e-5
    assert found["updates"] == 25 * 5
