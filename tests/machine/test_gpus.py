"""Which GPUs are seen: pretended ones, and what CUDA_VISIBLE_DEVICES leaves of them."""

from __future__ import annotations

import pytest

from tenfold.errors import BadCall
from tenfold.machine import gpus

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
MIG = "MIG-5f1d6e0c-0000-5a6b-9f3c-0a1b2c3d4e5f"


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TENFOLD_GPUS", "4")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def addresses() -> list[str]:
    return [gpu.address for gpu in gpus.find()]


def test_pretended_gpus(four: pytest.MonkeyPatch) -> None:
    found = gpus.find()
    assert [gpu.address for gpu in found] == ["0", "1", "2", "3"]
    assert {gpu.memory for gpu in found} == {gpus.PRETENDED_MEMORY}
    assert {gpu.share for gpu in found} == {1.0}


def test_pretending_none(four: pytest.MonkeyPatch) -> None:
    four.setenv("TENFOLD_GPUS", "0")
    assert gpus.find() == ()


@pytest.mark.parametrize("text", ["four", "-1", "1.5", " 2", "2,3", "\N{SUPERSCRIPT TWO}"])
def test_a_bad_number_is_named(four: pytest.MonkeyPatch, text: str) -> None:
    four.setenv("TENFOLD_GPUS", text)
    with pytest.raises(BadCall) as caught:
        gpus.find()
    assert f"TENFOLD_GPUS={text!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0", ["0"]),
        ("2,0", ["2", "0"]),
        (" 3 , 1 ", ["3", "1"]),
        ("-1", []),
        ("", []),
        ("NoDevFiles", []),
        ("1,-1,2", ["1"]),  # CUDA ignores everything after the first invalid entry
        ("1,9,2", ["1"]),
        ("0,1,2,3", ["0", "1", "2", "3"]),
    ],
)
def test_cuda_visible_devices_by_number(four: pytest.MonkeyPatch, visible: str, expected: list[str]) -> None:
    four.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert addresses() == expected


@pytest.mark.parametrize("visible", [UUID, MIG, f"{UUID},{MIG}"])
def test_cuda_visible_devices_by_name(four: pytest.MonkeyPatch, visible: str) -> None:
    """They are kept as the user wrote them: a worker's CUDA must be given the same words."""
    four.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert addresses() == visible.split(",")
    assert all(gpu.memory == gpus.PRETENDED_MEMORY for gpu in gpus.find())


def test_a_gpu_named_twice_is_still_one(four: pytest.MonkeyPatch) -> None:
    """Two seats on it would each be promised the whole."""
    four.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    assert addresses() == ["0"]


def test_without_pretending_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENFOLD_GPUS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus.find() == ()


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("TENFOLD_GPUS", raising=False)
    driver = gpus.find()
    monkeypatch.setenv("TENFOLD_GPUS", "")
    assert gpus.find() == driver
