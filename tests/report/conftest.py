"""What tests of reports share: a training, which takes longer than all other runs together."""

from __future__ import annotations

from pathlib import Path

import pytest
import reported


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one small model."""
    return reported.trained(tmp_path_factory.mktemp("trained"))
