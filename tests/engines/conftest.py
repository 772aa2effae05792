"""Every test that takes `engine` runs on every engine there is: a new one gets its tests for free."""

from __future__ import annotations

import pytest

from tenfold import engines
from tenfold.plan.choose import Abilities


@pytest.fixture(params=engines.names())
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def abilities(engine: str) -> Abilities:
    return engines.find(engine).abilities
