"""The loop: sends batches while there is room, journals what comes back, tries again what may be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tenfold.dispatch.feed import Feed
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.progress import Watch
from tenfold.engines import (
    Batch,
    Broken,
    Crew,
    Event,
    Failed,
    Finished,
    FinishedLarge,
    GivenBack,
    Printed,
    Reported,
    stop_overdue,
)
from tenfold.errors import WorkersUnavailable
from tenfold.journal.store import Block, Journal

OnError = Literal["raise", "collect", "stop"]

COMMIT_EVERY = 0.02  # seconds; a commit waits for the disk, so many small outcomes share one
LOSSES_FORGIVEN = 1  # how often a task whose process somebody else killed goes again without using up a retry
TICK = 0.1


@dataclass(frozen=True, slots=True)
class Policy:
    """What the caller wants done about failures."""

    retries: int
    """How often a failed task is tried again."""
    timeout: float | None
    """Seconds after which we stop a task; None where nobody does, or the task does itself."""
    on_error: OnError
    """Whether the first failure for good ends the call."""
    raised_again: bool = True
    """Whether a task that raised or took too long is tried again, too; otherwise only one whose process was lost."""
    forgiven: int = LOSSES_FORGIVEN
    """How often a task whose process somebody else killed goes again for nothing."""


class _Flight:
    """A batch that is with a worker."""

    __slots__ = ("batch", "done", "waits")

    def __init__(self, batch: Batch, *, waits: bool) -> None:
        self.batch = batch
        self.done = 0
        self.waits = waits  # it was sent though every worker had one, and may still be behind that

    def next(self, count: int) -> tuple[int, list[Any]]:
        """Index of the next task and the items of the next `count`; marks them as done."""
        first = self.batch.indices[self.done]
        items = self.batch.items[self.done : self.done + count]
        self.done += count
        return first, items

    def runs(self, count: int) -> list[int]:
        """How the next `count` tasks divide into such that follow one another among the items."""
        indices = self.batch.indices[self.done : self.done + count]
        if isinstance(indices, range):
            return [count]
        ends = [place for place in range(1, count) if indices[place] != indices[place - 1] + 1]
        return [stop - start for start, stop in zip([0, *ends], [*ends, count], strict=True)]

    @property
    def item(self) -> Any:
        """Of the next task."""
        return self.batch.items[self.done]

    @property
    def rest(self) -> tuple[Sequence[int], list[Any]]:
        return self.batch.indices[self.done :], self.batch.items[self.done :]


class Dispatch:
    """One call's loop."""

    def __init__(self, crew: Crew, feed: Feed, journal: Journal, pace: Pace, policy: Policy, watch: Watch) -> None:
        self._crew = crew
        self._feed = feed
        self._journal = journal
        self._pace = pace
        self._policy = policy
        self._watch = watch
        self._flights: dict[int, _Flight] = {}
        self._failures: dict[int, int] = {}  # attempts of a task that failed by its own fault
        self._losses: dict[int, int] = {}  # attempts that were lost with their process
        self._stopped = False

    def run(self) -> None:
        """Until every task has its outcome; raises only where the call as a whole cannot go on."""
        while not self._stopped:
            self._send()
            if not self._flights:
                break
            for event in self._crew.receive(self._patience()):
                self._take(event)
            if self._journal.seconds_since_commit() >= COMMIT_EVERY:
                self._journal.commit()
                self._watch.update(running=len(self._flights))
            stop_overdue(self._crew, self._policy.timeout)
        if self._stopped:
            self._feed.declined.clear()  # the call ends here
        self._journal.commit()
        self._watch.update(running=0)

    def _patience(self) -> float:
        uncommitted = COMMIT_EVERY - self._journal.seconds_since_commit()
        return min(TICK, uncommitted) if uncommitted > 0 else TICK

    def _send(self) -> None:
        while self._has_room():
            batch = self._feed.take(self._pace.size(self._feed.left, self._crew.capacity))
            if batch is None:
                return
            self._flights[batch.id] = _Flight(batch, waits=len(self._flights) >= self._crew.capacity)
            self._crew.send(batch)

    def _has_room(self) -> bool:
        """Where no batch is to wait behind another any more, those that may do so keep no worker from getting one."""
        depth = self._pace.depth()
        waiting = sum(flight.waits for flight in self._flights.values()) if depth == 1 else 0
        return len(self._flights) - waiting < self._crew.capacity * depth

    # -- events -------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if isinstance(event, Finished):
            done = 0
            for count in self._flights[event.batch].runs(len(event.seconds)):
                block = self._block(event, event.seconds[done : done + count])
                self._journal.add_values(block, event.bodies[done : done + count])
                self._feed.settled(range(block.first, block.first + count))
                done += count
            self._pace.learn(sum(event.seconds), len(event.seconds))
            self._watch.add(done=len(event.seconds))
        elif isinstance(event, FinishedLarge):
            block = self._block(event, [event.seconds])
            self._journal.add_large(block, event.memory)
            self._feed.settled([block.first])
            self._pace.learn(event.seconds, 1)
            self._watch.add(done=1)
        elif isinstance(event, Failed):
            self._fail(event)
        elif isinstance(event, GivenBack):
            self._send_again(event)
        elif isinstance(event, Reported):
            self._journal.add_reports(event.reports)
            self._watch.report(event.reports[-1])
        elif isinstance(event, Printed):
            self._watch.print(event.text, event.stream)
        elif isinstance(event, Broken):
            raise WorkersUnavailable(
                f"the function cannot be loaded in a worker: {event.failure.summary}\n\n{event.failure.traceback}"
            )

    def _block(self, event: Finished | FinishedLarge | Failed, seconds: Sequence[float]) -> Block:
        flight = self._flights[event.batch]
        first, items = flight.next(len(seconds))
        if flight.done == len(flight.batch.indices):
            del self._flights[event.batch]
        kept = self._feed.kept(items)
        attempt = flight.batch.attempt
        return Block(first, seconds, event.peak, event.seat, event.worker, attempt, kept, self._feed.digests(kept))

    def _fail(self, event: Failed) -> None:
        item = self._flights[event.batch].item
        block = self._block(event, [event.seconds])
        index, failure = block.first, event.failure
        if failure.kind == "declined":
            self._feed.decline(index, item, failure.summary)
            return
        self._journal.add_attempt(block, failure)
        if self._may_try_again(index, event):
            self._feed.again(block.attempts + 1, [index], [item])
            return
        self._journal.add_failure(block, failure)
        self._feed.failed(index, item)
        self._feed.settled([index])
        self._watch.add(failed=1)
        if self._policy.on_error == "stop":
            self._stopped = True

    def _may_try_again(self, index: int, event: Failed) -> bool:
        if event.failure.kind == "unsendable":
            return False  # it will not be any other next time
        if event.failure.kind in ("raised", "timeout") and not self._policy.raised_again:
            return False
        if event.lost and self._losses.get(index, 0) < self._policy.forgiven:
            self._losses[index] = self._losses.get(index, 0) + 1
            return True
        self._failures[index] = self._failures.get(index, 0) + 1
        return self._failures[index] <= self._policy.retries

    def _send_again(self, event: GivenBack) -> None:
        flight = self._flights.pop(event.batch)
        indices, items = flight.rest
        attempt = flight.batch.attempt
        if event.apart:
            for index, item in zip(indices, items, strict=True):
                self._feed.again(attempt, [index], [item])
        elif len(indices):
            self._feed.again(attempt, indices, items)
