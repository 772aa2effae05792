"""Workers that are kept for the next call end with each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tenfold.joblib


@pytest.fixture(autouse=True)
def _kept_workers_end() -> Iterator[None]:
    yield
    tenfold.joblib.shutdown()
