"""In the caller: how many parameter servers a training needs, and which of them are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenfold.training.muster import Arrival, Serving

PART = 2**24
"""Numbers that one server holds before there is another one, 64 MB. With each step a worker sends and receives as much:
more than 50 ms on 10 Gbit/s, about what a step of such a model takes, and one server is asked by all workers."""


def parts(size: int, hosts: int) -> int:
    """How many servers: none for workers that share memory, and at most one for each machine, which has one network."""
    return 0 if hosts == 1 else max(1, min(hosts, -(-size // PART)))


class Stations:
    """Of one training. Nobody needs servers where all workers share memory."""

    def __init__(self, start: Callable[[int], None] | None) -> None:
        """`start` has so many of them started; None where workers do not add to the same weights."""
        self._start = start
        self._wanted = 0
        self._manned: dict[int, Serving] = {}

    def man(self, serving: Serving) -> None:
        """A server is there."""
        self._manned[serving.part] = serving

    def leave(self, serving: Serving) -> None:
        """It is gone."""
        if self._manned.get(serving.part) is serving:
            del self._manned[serving.part]

    def are_ready(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether these workers can begin. The first ones on several machines have servers started, which stay."""
        hosts = len({arrival.host for arrival in arrivals})
        if self._start is not None and not self._wanted:
            self._wanted = parts(arrivals[0].size, hosts)
            if self._wanted:
                self._start(self._wanted)
        return len(self._manned) == self._wanted

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where they are, in the order of their parts."""
        return tuple(self._manned[part].address for part in sorted(self._manned))
