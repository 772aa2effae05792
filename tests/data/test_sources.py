"""The contract of sources, over every kind: any slice, all parts, the same keys and rows in another process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_kinds import KINDS, Made

import tenfold
from tenfold.data.opening import source
from tenfold.data.source import Rows, Source, count, samples


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(kind)


@pytest.fixture(scope="module")
def made(kind: str, folder: Path) -> Made:
    return KINDS[kind](folder, 0)


@pytest.fixture(scope="module")
def opened(made: Made) -> Source:
    found = source(made.value, columns=made.columns)
    found.read(0, 1)  # pyarrow and Zarr start threads once, which stay
    return found


def assert_rows(rows: Rows, expected: list[Any]) -> None:
    assert count(rows) == len(expected)
    for place, one in enumerate(expected):
        assert_sample(list(samples(rows))[place], one)


def assert_sample(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_sample(found[key], expected[key])
    elif isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_sample(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected or (found != found and expected != expected)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_slice_is_the_plain_read(made: Made, opened: Source, data: st.DataObject) -> None:
    length = len(made.samples)
    assert opened.length == length
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, min(length, start + 150)))
    assert_rows(opened.read(start, stop), made.samples[start:stop])
    assert_rows(opened.view(start, stop), made.samples[start:stop])


def test_all_at_once(made: Made, opened: Source) -> None:
    assert_rows(opened.read(0, len(made.samples)), made.samples)
    assert str(len(made.samples)) in opened.describe()
    assert opened.sample_bytes > 0


def test_what_is_read_may_be_changed(made: Made, opened: Source) -> None:
    rows = opened.read(0, 5)
    for column in rows.values() if isinstance(rows, dict) else rows if isinstance(rows, tuple) else [rows]:
        if isinstance(column, np.ndarray) and column.dtype.kind in "if":
            column += 1
    assert_rows(opened.read(0, 5), made.samples[:5])


def test_parts_are_everything_once_in_order(made: Made, opened: Source) -> None:
    parts = list(opened.parts())
    assert [part.start for part in parts] == [0, *[part.stop for part in parts[:-1]]]
    assert parts[-1].stop == len(made.samples)
    assert all(part.stop > part.start and part.key and part.rows is None for part in parts)
    assert len({part.key for part in parts}) == len(parts)
    assert [part.key for part in parts[:3]] == [opened.stamp(part.start, part.stop) for part in parts[:3]]


def there(given: tuple[Source, Made]) -> tuple[int, list[str | None], Rows, Rows]:
    """In a worker: the source as it came, and made again from what the caller had given."""
    came, made = given
    again = source(made.value, columns=made.columns)
    return os.getpid(), [part.key for part in again.parts()], came.read(7, 31), again.read(7, 31)


def test_another_process_reads_the_same(made: Made, opened: Source) -> None:
    opened.read(3, 5)  # what is open now is not sent
    [found] = tenfold.map(there, [(opened, made)], engine="local", progress=False)
    pid, keys, came, again = found
    assert pid != os.getpid()
    assert keys == [part.key for part in opened.parts()]
    assert_rows(came, made.samples[7:31])
    assert_rows(again, made.samples[7:31])


def test_keys_are_others_when_the_content_is(kind: str, tmp_path: Path) -> None:
    def keys(shift: int) -> list[str | None]:
        made = KINDS[kind](tmp_path, shift)
        for path in tmp_path.rglob("*"):
            os.utime(path, ns=(shift, 10**18 + shift * 10**9))  # a clock may stand still for some milliseconds
        return [part.key for part in source(made.value, columns=made.columns).parts()]

    first = keys(0)
    assert first == keys(0)
    assert all(before != now for before, now in zip(first, keys(1), strict=True))
