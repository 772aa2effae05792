"""How many tasks go together: enough that sending them costs 2 %, and no more, so that the end is shared evenly."""

from __future__ import annotations

SHARE = 0.02  # of the time that may be spent on sending
MOST = 5_000  # tasks in a batch, however small they are
GROWTH = 8  # times the last batch at most, because the first tasks may be the quick ones
SHORT = 0.1  # seconds of a task behind which an equally long one may wait, with others idle


class Pace:
    """Learns how long tasks take, and sizes batches by it. Starts with one task at a time.

    `even`: all tasks take about as long as each other.
    """

    def __init__(self, seconds_per_batch: float, *, one_by_one: bool, even: bool = False) -> None:
        self._target = seconds_per_batch / SHARE
        self._quick = max(self._target / 5, SHORT if even else 0.0)
        self._mean: float | None = None
        self._size = 1
        self._one_by_one = one_by_one

    def learn(self, seconds: float, count: int) -> None:
        """`count` tasks took `seconds` together."""
        mean = seconds / count
        # The slower of old and new counts more: a batch that is too long hurts more than one that is too short.
        weight = 0.5 if self._mean is None or mean > self._mean else 0.2
        self._mean = mean if self._mean is None else (1 - weight) * self._mean + weight * mean

    def size(self, left: int | None, workers: int) -> int:
        """Tasks in the next batch, of `left` that are to come (None: not known).

        Grown step by step, and smaller towards the end, so that nobody waits for the last one's batch.
        """
        if self._one_by_one or self._mean is None:
            return 1
        wanted = int(self._target / max(self._mean, 1e-9))
        fair = left // (2 * workers) if left is not None else MOST
        self._size = max(1, min(wanted, GROWTH * self._size, MOST))
        return max(1, min(self._size, fair))

    def depth(self) -> int:
        """Batches that a worker may have at once: a second one waits with it where a round trip would cost time."""
        quick = self._mean is not None and self._mean < self._quick
        return 2 if quick and not self._one_by_one else 1
