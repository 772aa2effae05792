"""Rates and times as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.errors import BadCall
from tenfold.scaling import units


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [
        ("25Gbit", 25e9 / 8),
        ("25 Gbit/s", 25e9 / 8),
        ("100 Mbps", 100e6 / 8),
        ("3GB/s", 3e9),
        ("3 GB", 3e9),
        ("1.5 GiB/s", 1.5 * 2**30),
        ("800kbit/s", 1e5),
        (1e9, 1e9),
        (7, 7.0),
        (math.inf, math.inf),
    ],
)
def test_rates(text: str | float, bytes_a_second: float) -> None:
    assert units.rate(text, "network") == pytest.approx(bytes_a_second)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5us", 5e-6), ("1.5ms", 1.5e-3), ("2 min", 120), ("1e3ns", 1e-6), (0, 0)]
)
def test_times(text: str | float, seconds: float) -> None:
    assert units.seconds(text, "latency") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["25Gb", "fast", "", "-1GB/s", "0Gbit", 0, -1, math.nan, True, None, "1e999GB/s", "3 GBit/h"]
)
def test_rates_that_cannot_be_read(value: object) -> None:
    with pytest.raises(BadCall, match=r"network=.*expected .*25Gbit"):
        units.rate(value, "network")


@pytest.mark.parametrize("value", ["5", "soon", -1, math.inf, math.nan, True, None, "1e999s"])
def test_times_that_cannot_be_read(value: object) -> None:
    with pytest.raises(BadCall, match=r"latency=.*expected .*5us"):
        units.seconds(value, "latency")


@given(st.floats(1e-9, 1e6))
def test_a_readable_time_is_the_same_time(seconds: float) -> None:
    assert units.seconds(units.readable(seconds), "time") == pytest.approx(seconds, rel=1e-2)
