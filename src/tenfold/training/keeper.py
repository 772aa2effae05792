"""In a worker of a divided training: where its part of the state is kept, and when all keep theirs."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

from tenfold.training.line import Line
from tenfold.training.terms import Checkpointing, Pacer
from tenfold.work.clock import Clock

ASK_EVERY = 0.5  # seconds between two questions whether it is time, or less; each makes all workers wait for each other
STEPS_MOST = 1000  # between two questions


class Keeper:
    """The caller has the parts of all workers. One that is not kept by all of them does not count."""

    def __init__(self, line: Line, clock: Clock) -> None:
        self._line = line
        self.clock = clock
        """Where this worker's time goes, since its task began."""

    def recall(self) -> Any:
        """What this worker kept after the step that all go on from; None where all begin."""
        found = self._line.fetch()
        return None if found is None else pickle.loads(found)

    def keep(self, step: int, state: Any) -> None:
        """This worker's part, after the same step as those of the others."""
        self._line.keep(step, pickle.dumps(state, protocol=5))


class Turns:
    """When all workers keep their parts: after the same step, or nothing could go on from them.

    By steps, each knows it. By time, the first worker's clock counts.
    """

    def __init__(self, often: Checkpointing | None, step: int, said: Callable[[int], int]) -> None:
        """From this step on. `said` is called by all workers at once, and returns to all what the first one gave."""
        self._pacer = Pacer(often, step)
        seconds = None if often is None else often.seconds
        self._every = None if seconds is None else min(ASK_EVERY, seconds / 4)
        self._said = said
        self._asked, self._at = step, time.monotonic()
        self._next = step + 1

    def due(self, step: int) -> bool:
        """Whether they do after this one; called after every step."""
        if self._every is None:
            return self._pacer.due(step)
        if step < self._next:
            return False
        now = time.monotonic()
        seconds = (now - self._at) / (step - self._asked)
        ahead = max(1, min(STEPS_MOST, int(self._every / max(seconds, 1e-6))))
        said = self._said(-ahead if self._pacer.due(step) else ahead)
        self._asked, self._at, self._next = step, now, step + abs(said)
        return said < 0
