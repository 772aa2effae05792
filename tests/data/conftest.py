"""What libraries keep while their process lives: Zarr's thread ends with each test, Arrow's pipe is there first."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def by_value(travels_by_value: None) -> None:
    """Workers need not import the files of tests."""


@pytest.fixture(autouse=True, scope="session")
def arrow_has_its_pipe() -> None:
    """The first CSV that is read opens it, in whichever test that is."""
    from pyarrow import BufferReader, csv

    csv.read_csv(BufferReader(b"a\n1\n"))


@pytest.fixture(autouse=True)
def zarr_rests() -> Iterator[None]:
    yield
    if "zarr" in sys.modules:
        from zarr.core.sync import cleanup_resources

        cleanup_resources()
