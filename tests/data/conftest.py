"""Zarr keeps a thread with an event loop for as long as its process lives: here it ends with each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def zarr_rests() -> Iterator[None]:
    yield
    if "zarr" in sys.modules:
        from zarr.core.sync import cleanup_resources

        cleanup_resources()
