"""Every test that takes `engine` runs on every engine there is: a new one gets its tests for free."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

import leftovers
import tenfold
from tenfold import engines
from tenfold.plan.choose import Abilities


@pytest.fixture(params=engines.names(), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an engine; a cluster is up for as long as a module's tests use it."""
    name = str(request.param)
    member = importlib.import_module(f"tenfold.engines.{name}")
    if not hasattr(member, "close"):
        yield name
        return
    setattr(leftovers.clusters, name, True)
    tenfold.map(abs, [1], engine=name)
    yield name
    member.close()
    setattr(leftovers.clusters, name, False)


@pytest.fixture
def abilities(engine: str) -> Abilities:
    return engines.find(engine).abilities
