"""`tenfold.train` of a Keras model, on each backend: the same by any number of workers, also when one is killed."""

from __future__ import annotations

from typing import Any

import backends
import pytest

BACKENDS = ("tensorflow", "jax", "torch")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each backend's process has found."""
    return backends.answers("trained_keras", BACKENDS, tmp_path_factory)


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
