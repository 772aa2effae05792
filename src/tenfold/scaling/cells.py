"""What `tenfold.measure` has measured: a cell for each setting, with what every repeat of it took."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from tenfold.work.clock import PARTS as PARTS


@dataclass(frozen=True, slots=True)
class Setting:
    """One place of the grid."""

    workers: int
    """How many at once."""
    size: int | None = None
    """How much data: samples, items; None where only one size is measured."""
    how: str | None = None
    """Such as "synchronous", where several ways are compared."""
    engine: str | None = None
    """Such as "local", where several are compared."""

    def __str__(self) -> str:
        words = [f"{self.workers} worker{'s' if self.workers != 1 else ''}"]
        words += [] if self.size is None else [f"size {self.size:,}"]
        return ", ".join(words + [word for word in (self.how, self.engine) if word is not None])


@dataclass(frozen=True, slots=True)
class Taken:
    """What one repeat took."""

    seconds: float
    """Wall time, from the call to its return."""
    items: float
    """Samples or items that went through, epochs counted."""
    parts: Mapping[str, float]
    """Seconds of the wall time for each of `PARTS`, averaged over the workers."""
    memory: int
    """Most resident memory of each worker, added up, in bytes; 0 where it is not known."""
    cpu: float
    """Cores of this machine that were busy, on average."""
    energy: float | None = None
    """Joules, where the machine tells."""
    steps: int | None = None
    """Updates of the weights, where one model was trained."""
    parameters: int | None = None
    """Numbers that are learned, where one model was trained."""
    cpus: float | None = None
    """Cores of each worker, where tenfold gave it some: repeats with other numbers of them are not of one cell."""
    machines: int = 1
    """How many the workers were on."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting and what became of it."""

    setting: Setting
    """Which."""
    repeats: tuple[Taken, ...] = ()
    """In the order in which they were made, without the warm-up."""
    failure: str | None = None
    """Why it has none, or no more."""
    traceback: str = ""
    """Of the failure."""

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(taken.seconds for taken in self.repeats)

    @property
    def throughput(self) -> float:
        """Items a second."""
        return statistics.median(taken.items for taken in self.repeats) / self.seconds

    @property
    def spread(self) -> float:
        """Half the range of the repeats, as a share of the median; 0 for a single one."""
        found = [taken.seconds for taken in self.repeats]
        return (max(found) - min(found)) / 2 / self.seconds if found else 0.0

    @property
    def doubt(self) -> float:
        """By how much the median may be off, as a share of it: two standard errors; `inf` for a single repeat."""
        found = [taken.seconds for taken in self.repeats]
        if len(found) < 2:
            return math.inf
        # The median of a normal distribution is less sure than its mean, by the root of pi / 2.
        return 2 * math.sqrt(math.pi / 2) * statistics.stdev(found) / math.sqrt(len(found)) / self.seconds

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of the wall time: those of the repeats whose time is the median, so that they add up to it."""
        order = sorted(self.repeats, key=lambda taken: taken.seconds)
        middle = order[(len(order) - 1) // 2], order[len(order) // 2]
        return {name: statistics.fmean(taken.parts.get(name, 0.0) for taken in middle) for name in PARTS}

    @property
    def memory(self) -> int:
        """The most of all repeats."""
        return max(taken.memory for taken in self.repeats)

    @property
    def cpu(self) -> float:
        """Busy cores: the median."""
        return statistics.median(taken.cpu for taken in self.repeats)

    @property
    def energy(self) -> float | None:
        """Joules of a repeat: the median; None where the machine does not tell."""
        found = [taken.energy for taken in self.repeats if taken.energy is not None]
        return statistics.median(found) if found else None
