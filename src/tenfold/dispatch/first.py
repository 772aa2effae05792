"""Feeds the first item alone: where the others need what it settles, such as the form of all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tenfold.dispatch.feed import Feed
from tenfold.engines import Batch
from tenfold.journal.store import Journal


class FirstAlone(Feed):
    """Sends nothing else until the first task has its outcome; then `begun` may look at it, and refuse to go on."""

    def __init__(
        self,
        items: Iterable[Any],
        journal: Journal,
        *,
        resumable: bool,
        begun: Callable[[], None] | None = None,
        failed: Callable[[int, Any], None] | None = None,
    ) -> None:
        super().__init__(items, journal, resumable=resumable, failed=failed)
        self._begun = begun
        self._is_alone = True

    def take(self, size: int) -> Batch | None:
        if self._again or not self._is_alone:
            return super().take(size)
        return super().take(1) if not self._batches else None

    def settled(self, indices: Sequence[int]) -> None:
        if self._is_alone and self._begun is not None:
            self._begun()
        self._is_alone = False
        super().settled(indices)
