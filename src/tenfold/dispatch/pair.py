"""Two crews as one: most tasks go to the first; those that it cannot run go to the second, which starts when needed."""

from __future__ import annotations

from collections.abc import Callable

from tenfold.engines import Batch, Crew, Event
from tenfold.work.outcome import Failure

GLANCE = 0.01  # seconds for which the second is listened to before the first is again


class Pair:
    """A `Crew` of two. Together they are never given more than the first could take."""

    def __init__(self, first: Crew, second: Callable[[], Crew], is_for_second: Callable[[Batch], bool]) -> None:
        self._first = first
        self._open = second
        self._second: Crew | None = None
        self._is_for_second = is_for_second

    @property
    def capacity(self) -> int:
        return self._first.capacity

    def send(self, batch: Batch) -> None:
        if not self._is_for_second(batch):
            self._first.send(batch)
            return
        if self._second is None:
            self._second = self._open()
        self._second.send(batch)

    def receive(self, seconds: float) -> list[Event]:
        if self._second is None:
            return self._first.receive(seconds)
        return [*self._first.receive(0.0), *self._second.receive(min(seconds, GLANCE))]

    def running(self) -> dict[int, float]:
        return self._first.running() | (self._second.running() if self._second is not None else {})

    def stop(self, batch: int, failure: Failure) -> None:
        for crew in (self._first, self._second):
            if crew is not None and batch in crew.running():
                crew.stop(batch, failure)

    def close(self) -> None:
        for crew in (self._first, self._second):
            if crew is not None:
                crew.close()
