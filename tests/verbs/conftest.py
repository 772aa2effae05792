"""Tests of verbs give functions of their files to many workers, which would import these files one after the other."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def by_value(travels_by_value: None) -> None:
    """All of them do."""
