"""Workers whose devices are one set, by TensorFlow's or JAX's own collectives, train what one worker trains."""

from __future__ import annotations

import re
from typing import Any

import backends
import nets
import pytest

import tenfold
from tenfold.errors import BadCall

BACKENDS = ("tensorflow", "jax")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each backend's process has found."""
    return backends.answers("group_keras", BACKENDS, tmp_path_factory)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_two_workers_make_what_one_makes(backend: str, name: str, answers: dict[str, Any]) -> None:
    assert answers[backend][name] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_start_again_from_the_checkpoint_when_one_is_lost(backend: str, answers: dict[str, Any]) -> None:
    found = answers[backend]["killed"]
    first, lost, again = found["events"]
    assert first.endswith("2 of 2 workers start from the beginning")
    assert "its process has ended without a word; the others are ended with it" in lost
    assert re.search("2 of 2 workers start again from step [1-9]", again), again
    assert found["apart"] < 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 2}, 'exchange="framework": of Keras on TensorFlow or JAX; PyTorch has its own'),
        ({}, 'exchange="framework": give workers='),
        ({"workers": 2, "devices": 2}, 'devices=2: not with exchange="framework"'),
        ({"workers": 2, "how": "asynchronous"}, "exchange='framework': only with how=\"synchronous\""),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadCall, match=words):
        tenfold.train(nets.fit(), {"seed": 3}, progress=False, exchange="framework", **options)
