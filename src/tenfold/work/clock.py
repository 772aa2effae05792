"""In a worker: where its time goes, told in a few words that mean the same for every verb."""

from __future__ import annotations

import time
from typing import Literal

Part = Literal["startup", "input", "compute", "communication", "waiting", "rest"]
PARTS: tuple[Part, ...] = ("startup", "input", "compute", "communication", "waiting", "rest")
"""Of the wall time; they add up to it. `rest` is what the caller did by itself."""


class Clock:
    """Every moment since it was made belongs to one part: that which is named when the moment is over."""

    def __init__(self, began: float | None = None) -> None:
        """`began`: when the first lap did, by this machine's monotonic clock; now where it is not given."""
        self.spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        """Seconds for each part."""
        self._begun = False
        self._last = time.monotonic() if began is None else began

    def lap(self, part: Part) -> None:
        """What was done since the last lap."""
        now = time.monotonic()
        self.spent[part] += now - self._last
        self._last = now

    def aside(self, part: Part, seconds: float) -> None:
        """So many seconds of the lap under way are not of what it will be said to have been."""
        self.spent[part] += seconds
        self._last += seconds

    def stepped(self) -> None:
        """The end of a step was compute. The first step, and all before it, was getting ready: programs were made."""
        self.lap("compute")
        if not self._begun:
            self._begun = True
            ready = sum(self.spent.values())
            for part in PARTS:
                self.spent[part] = 0.0
            self.spent["startup"] = ready
