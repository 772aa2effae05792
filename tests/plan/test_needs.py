"""What a task may ask for, and how a size may be written."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.errors import BadCall
from tenfold.plan.needs import Needs, needs, readable, size


@pytest.mark.parametrize(
    ("cpus", "gpus", "memory", "expected"),
    [
        (1, 0, None, Needs(1, 0, None)),
        (0.25, 0.5, "1GB", Needs(0.25, 0.5, 10**9)),
        (4, 2, 1024, Needs(4, 2, 1024)),
        (2.0, 1.0, None, Needs(2.0, 1.0, None)),
    ],
)
def test_what_may_be_asked_for(cpus: float, gpus: float, memory: Any, expected: Needs) -> None:
    assert needs(cpus, gpus, memory) == expected


BAD = [-1, 1.5, math.nan, math.inf, True, "2", None]


@pytest.mark.parametrize("value", [*BAD, 0])
def test_bad_cpus(value: Any) -> None:
    with pytest.raises(BadCall, match="cpus="):
        needs(value, 0, None)


@pytest.mark.parametrize("value", BAD)
def test_bad_gpus(value: Any) -> None:
    with pytest.raises(BadCall, match="gpus="):
        needs(1, value, None)


def test_all_faults_come_in_one_message() -> None:
    with pytest.raises(BadCall) as caught:
        needs(1.5, -2, "lots")
    message = str(caught.value)
    for part in ("cpus=1.5", "gpus=-2", "memory='lots'", '"2GB"', "whole number"):
        assert part in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("512", 512),
        ("512b", 512),
        ("2k", 2000),
        ("2kB", 2000),
        ("2 KiB", 2048),
        ("1.5 MB", 1_500_000),
        ("512 MiB", 512 << 20),
        ("2GB", 2 * 10**9),
        (" 2 gib ", 2 << 30),
        ("1T", 10**12),
        ("0.5TiB", 1 << 39),
        (4096, 4096),
    ],
)
def test_sizes(text: Any, expected: int) -> None:
    assert size(text, "memory") == expected


@pytest.mark.parametrize(
    "value", ["", "GB", "2 XB", "2ib", "-2GB", "0", "0 GB", "1e3", "2GB!", 0, -5, 2.5, True, None, [1], "inf"]
)
def test_bad_sizes(value: Any) -> None:
    with pytest.raises(BadCall, match="memory=") as caught:
        size(value, "memory")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", ["0.4", "0.9B", "0.0001k"])
def test_less_than_a_byte_is_refused(value: str) -> None:
    """Zero bytes would be read as 'no limit'."""
    with pytest.raises(BadCall, match="memory="):
        size(value, "memory")


def test_a_size_beyond_every_number_is_refused() -> None:
    with pytest.raises(BadCall, match="memory="):
        size("9" * 400, "memory")


@given(st.integers(1, 10**6), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]), st.booleans())
def test_a_size_is_its_number_times_its_unit(number: int, unit: str, with_b: bool) -> None:
    base = 1024 if unit.endswith("i") else 1000
    power = "kmgt".find(unit[:1].lower()) + 1 if unit else 0
    assert size(f"{number}{unit}{'B' if with_b else ''}", "memory") == number * base**power


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1536, "1.5 kB"), (2_000_000, "2.0 MB"), (16 << 30, "17.2 GB"), (5e15, "5000.0 TB")],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert readable(count) == text


@given(st.integers(1, 10**15))
def test_a_readable_size_can_be_read_back(count: int) -> None:
    assert size(readable(count), "memory") == pytest.approx(count, rel=0.05, abs=0.5)
