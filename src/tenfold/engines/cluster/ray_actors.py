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
    """A Ray actor that has the foremen of one call after another, with the GPUs that Ray has given to it."""

    def __init__(self) -> None:
        self._foremen: dict[int, Foreman] = {}
        self._begun = 0

    async def ping(self) -> None:
        return

    async def begin(self, contract: bytes) -> int:
        """Another foreman; the number by which it is known here."""
        import ray

        self._begun += 1
        self._foremen[self._begun] = Foreman(contract, [str(number) for number in ray.get_gpu_ids()])
        return self._begun

    async def tell(self, number: int, orders: Sequence[tuple[Any, ...]]) -> None:
        await self._foremen[number].tell(orders)

    async def hear(self, number: int) -> list[Any]:
        return await self._foremen[number].hear()

    async def close(self, number: int) -> None:
        await self._foremen.pop(number).close()
