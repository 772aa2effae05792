"""One process with several devices trains what one device trains: a mesh of JAX, mirrored copies of TensorFlow."""

from __future__ import annotations

import re
from typing import Any

import backends
import devices_keras
import nets
import pytest

import tenfold
from tenfold import machine
from tenfold.errors import BadCall

BACKENDS = ("tensorflow", "jax")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each backend's process has found."""
    return backends.answers("devices_keras", BACKENDS, tmp_path_factory)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", devices_keras.PARITY)
def test_two_devices_make_what_one_makes(backend: str, name: str, answers: dict[str, Any]) -> None:
    found = answers[backend]["parity"][name]
    assert found["divided"]
    assert found["learned"], "or this test shows nothing"
    draws_others = name == "dropout" and backend == "tensorflow"
    assert (found["weights"] < 1e-5) is not draws_others, found
    if not draws_others:
        assert max(found[what] for what in ("history", "shares", "loss", "gone on")) < 1e-5, found


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_they_can_be_asked_for(backend: str, answers: dict[str, Any]) -> None:
    found = answers[backend]["calls"]
    assert max(found["two"], found["gpus"]) < 1e-5
    assert found["workers"] == 1
    assert found["plan"].endswith("\n2 devices in each process, as asked")
    assert re.match(r"devices=3: \w+ has 2 in this process, .*engine=\"local\"", found["refused"]), found["refused"]


@pytest.mark.slow
@pytest.mark.skipif(machine.look().cpus < 2, reason="there is one core, and nothing to choose")
def test_they_are_taken_where_they_are_faster_and_kept_by_the_run(answers: dict[str, Any]) -> None:
    found = answers["tensorflow"]["chosen"]
    assert "once" in found["failed"]
    resumed, again = found["plans"]
    assert re.match(r"1 worker with \d+ devices: .* steps/s; 1 worker with \d+ cores: .* steps/s", resumed[0]), resumed
    assert again == resumed
    assert "1 of 1 workers go on at step" in found["events"][0][0]
    assert not found["events"][0][0].endswith("at step 0")
    assert found["events"][1] == []
    assert found["apart"] < 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devices": 0}, "devices=0: expected a whole number above 0"),
        ({"devices": True}, "devices=True: expected a whole number above 0"),
        ({"devices": 2}, "devices=2: of Keras on JAX or TensorFlow; PyTorch has one device in each process"),
        ({"devices": 2, "how": "asynchronous"}, 'devices=2: only with how="synchronous"'),
        ({"devices": 2, "how": "sharded"}, 'devices=2: only with how="synchronous"'),
        ({"devices": 2, "gpus": 1}, "devices=2, gpus=1: .* give gpus=2"),
        ({"devices": 2, "engine": "serial"}, "devices=2, engine='serial': a process has its devices from its start"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadCall, match=words):
        tenfold.train(nets.fit(), {"seed": 3}, progress=False, **options)
