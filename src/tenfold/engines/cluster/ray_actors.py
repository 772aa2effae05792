"""On a Ray node: the actors that work for a caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenfold.engines.cluster import content, facts, foreman
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.facts import Facts
from tenfold.engines.cluster.foreman import Foreman


class Keeper:
    """On a node, for as long as the caller lives."""

    def ping(self) -> None:
        return

    def look(self) -> Facts:
        return facts.look()

    def available(self) -> dict[str, dict[str, float]]:
        """What nobody uses now, on every node of the cluster."""
        from ray._private import state

        return dict(state.available_resources_per_node())

    def has(self, notice: Notice) -> bool:
        return content.has(notice)

    def add(self, notice: Notice, place: int, chunk: bytes) -> None:
        content.add(notice, place, chunk)

    def echo(self, data: bytes) -> bytes:
        return content.echo(data)

    def keep_warm(self, contract: bytes) -> None:
        foreman.keep_warm(contract)


class RayForeman:
    """A Ray actor that is the foreman of one call after another, with the GPUs that Ray has given to it."""

    def __init__(self) -> None:
        self._foreman: Foreman | None = None

    async def begin(self, contract: bytes) -> None:
        import ray

        self._foreman = Foreman(contract, [str(number) for number in ray.get_gpu_ids()])

    async def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        if self._foreman is not None:
            await self._foreman.tell(orders)

    async def hear(self) -> list[Any]:
        return await self._foreman.hear() if self._foreman is not None else []

    async def close(self) -> None:
        if self._foreman is not None:
            await self._foreman.close()
