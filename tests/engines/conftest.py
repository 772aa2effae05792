"""Every test that takes `engine` runs on every engine there is: a new one gets its tests for free.

Tests go engine by engine, so that a cluster is started once and not by every module: Ray needs several seconds for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import leftovers
import tenfold
from tenfold import engines
from tenfold.plan.choose import Abilities

HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of this folder that want no engine come first: they are judged while no cluster is up."""
    ours = [place for place, item in enumerate(items) if HERE in item.path.parents]
    for place, item in zip(ours, sorted((items[place] for place in ours), key=_turn), strict=True):
        items[place] = item


def _turn(item: pytest.Item) -> tuple[str, bool]:
    """The engine, and whether it has GPUs: Ray is started again with them, so that is done last."""
    call = getattr(item, "callspec", None)
    fixtures = getattr(item, "fixturenames", ())
    return str(call.params["engine"]) if call is not None and "engine" in fixtures else "", "two_gpus" in fixtures


@pytest.fixture(params=engines.names(), scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an engine; a cluster is up for as long as tests use it."""
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
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended ones."""
    monkeypatch.setenv("TENFOLD_GPUS", "2")


@pytest.fixture
def abilities(engine: str) -> Abilities:
    return engines.find(engine).abilities
