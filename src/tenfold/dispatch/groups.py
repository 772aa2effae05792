"""Feeds tasks in groups that were made beforehand, for functions that take several at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tenfold.dispatch.feed import Feed, same_item
from tenfold.engines import Batch
from tenfold.journal.store import Journal


class GroupFeed(Feed):
    """All items are known. A batch is a group, of whatever size; indices need not follow one another."""

    def __init__(
        self,
        items: Sequence[Any],
        journal: Journal,
        *,
        resumable: bool,
        cut: Callable[[list[int]], list[list[int]]],
    ) -> None:
        super().__init__(items, journal, resumable=resumable)
        self._known = items
        finished = {index for first, count in journal.finished() for index in range(first, first + count)}
        for index in sorted(finished) if resumable else ():
            same_item(journal, index, items[index])
        self._groups = deque(cut([index for index in range(len(items)) if index not in finished]))
        self.drawn, self.exhausted = len(items), True

    @property
    def left(self) -> int | None:
        return sum(map(len, self._groups))

    def take(self, size: int) -> Batch | None:
        if self._again:
            attempt, indices, items = self._again.popleft()
            return self._batch(attempt, indices, items)
        if not self._groups:
            return None
        group = self._groups.popleft()
        return self._batch(1, group, [self._known[index] for index in group])

    def again(self, attempt: int, indices: Sequence[int], items: list[Any]) -> None:
        """In two halves: where a group was too much for its worker, a half may not be."""
        half = -(-len(items) // 2)
        for part in (slice(0, half), slice(half, None)):
            if items[part]:
                self._again.append((attempt, indices[part], items[part]))
