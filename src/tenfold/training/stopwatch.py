"""In a worker: how fast its first steps are, so that the caller can choose how many workers there are."""

from __future__ import annotations

import statistics
import time

LAP = 0.06  # seconds of steps that are timed together, at the least
LAPS = 5  # their median is not moved by one in which a program was made, or the machine was busy


class Stopwatch:
    """Counts steps and the time between them. What is done between epochs does not count, nor does the first step."""

    def __init__(self) -> None:
        self.pace: float | None = None
        """Steps a second; None until there are enough."""
        self._last: float | None = None
        self._begun = False
        self._steps = 0
        self._seconds = 0.0
        self._laps: list[float] = []

    def begin(self) -> None:
        """An epoch does."""
        self._last = time.monotonic()

    def stepped(self, steps: int) -> None:
        """So many have been taken since the last call."""
        now = time.monotonic()
        seconds, self._last = now - (self._last or now), now
        if not self._begun:  # it has made programs
            self._begun = True
        elif self.pace is None:
            self._count(steps, seconds)

    def _count(self, steps: int, seconds: float) -> None:
        self._steps += steps
        self._seconds += seconds
        if self._seconds < LAP:
            return
        self._laps.append(self._steps / self._seconds)
        self._steps, self._seconds = 0, 0.0
        if len(self._laps) == LAPS:
            self.pace = statistics.median(self._laps)
