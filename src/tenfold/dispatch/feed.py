"""Feeds items lazily, in batches of consecutive tasks; leaves out what is finished, takes back what must go again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from tenfold.engines import Batch
from tenfold.errors import RunDiffers
from tenfold.journal import digest, fingerprint
from tenfold.journal.store import Journal
from tenfold.work.outcome import shorten


class Feed:
    """The tasks that are still to be sent. Reads no item before it is asked for."""

    def __init__(
        self,
        items: Iterable[Any],
        journal: Journal,
        *,
        resumable: bool,
        failed: Callable[[int, Any], None] | None = None,
    ) -> None:
        """`failed` is told which task has failed for good, with its item: the journal keeps none that is large."""
        self._items: Iterator[Any] = iter(items)
        self._failed = failed
        self._total = len(items) if isinstance(items, Sized) else None
        self._journal = journal
        self._resumable = resumable
        count = journal.meta("count") if resumable else None
        self._expected = int(count) if count else None
        self._finished = deque(journal.finished() if resumable else [])
        self._again: deque[tuple[int, Sequence[int], list[Any]]] = deque()
        self._batches = 0
        self.drawn = 0
        """Items read so far."""
        self.exhausted = False
        """There are no more."""
        self.declined: dict[int, str] = {}
        """Tasks that are to be run in another way, and why."""

    @property
    def left(self) -> int | None:
        """Items that were not read yet, where that is known."""
        return self._total - self.drawn if self._total is not None else None

    def take(self, size: int) -> Batch | None:
        """The next batch, of at most `size` tasks; None where there is nothing to send now."""
        if self._again:
            return self._returned(size)
        first, items = self._fresh(size) if not self._finished else self._unfinished(size)
        if not items:
            return None
        return self._batch(1, range(first, first + len(items)), items)

    def is_empty(self) -> bool:
        """Whether there is nothing to send at all."""
        batch = self.take(1)
        if batch is not None:
            self._again.appendleft((batch.attempt, batch.indices, batch.items))
        return batch is None

    def again(self, attempt: int, indices: Sequence[int], items: list[Any]) -> None:
        """Send these tasks again, before any new one."""
        self._again.append((attempt, indices, items))

    def settled(self, indices: Sequence[int]) -> None:
        """These tasks have their outcomes, for good."""

    def failed(self, index: int, item: Any) -> None:
        """This task has failed for good."""
        if self._failed is not None:
            self._failed(index, item)

    def decline(self, index: int, item: Any, reason: str) -> None:
        """This task is to be run in another way."""
        self.declined[index] = reason

    def kept(self, items: Sequence[Any]) -> Sequence[Any]:
        """What the journal keeps of them."""
        return items

    def digests(self, items: Sequence[Any]) -> bytes:
        """What the journal keeps to recognise the items of a finished task by."""
        return b"".join(map(_digest, items)) if self._resumable else b""

    def _returned(self, size: int) -> Batch:
        attempt, indices, items = self._again.popleft()
        if len(items) > size:
            self._again.appendleft((attempt, indices[size:], items[size:]))
        return self._batch(attempt, indices[:size], items[:size])

    def _batch(self, attempt: int, indices: Sequence[int], items: list[Any]) -> Batch:
        self._batches += 1
        return Batch(self._batches, attempt, indices, items)

    def _fresh(self, size: int) -> tuple[int, list[Any]]:
        """The common case: nothing was finished before."""
        items = list(islice(self._items, size))
        first = self.drawn
        self.drawn += len(items)
        self.exhausted = len(items) < size
        self._check_count()
        return first, items

    def _check_count(self) -> None:
        """A run that was finished has a number of items; a generator shows only at its end that it has another."""
        if self._expected is None or (self.drawn <= self._expected and not self.exhausted):
            return
        if self.drawn != self._expected:
            now = self.drawn if self.exhausted else "more"
            raise RunDiffers(
                f"the run differs: there were {self._expected} items and are now {now}. "
                "Give run= another folder, or fresh=True to start this one anew"
            )

    def _unfinished(self, size: int) -> tuple[int, list[Any]]:
        """Skip what was finished, making sure that it is the same item; stop before the next finished one."""
        for item in self._items:
            index = self.drawn
            self.drawn += 1
            first, count = self._finished[0]
            if index < first:
                # Up to the next finished block there may be more: they come one at a time, which is only the edge.
                return index, [item]
            same_item(self._journal, index, item)
            if index == first + count - 1:
                self._finished.popleft()
                if not self._finished:
                    return self._fresh(size)
        self.exhausted = True
        self._check_count()
        return self.drawn, []


def _digest(item: Any) -> bytes:
    try:
        return fingerprint.of_value(item)
    except Exception:  # it cannot be pickled, so it cannot be recognised either
        return bytes(digest.SIZE)


def same_item(journal: Journal, index: int, item: Any) -> None:
    """Refuse an item that is not the one that was finished."""
    before = journal.digest(index)
    if not before or before == _digest(item):
        return
    try:
        kept = journal.item(index)
        if kept == item:  # equal, but pickled in another way
            return
        was = f"was {shorten(kept)}"
    except Exception:  # not kept, or a comparison that makes no single answer (arrays)
        was = "was another one"
    raise RunDiffers(
        f"the run differs: item {index} {was} and is now {shorten(item)}. "
        "Give run= another folder, or fresh=True to start this one anew"
    )
