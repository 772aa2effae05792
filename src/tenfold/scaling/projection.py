"""What a projection says: a table over workers, what holds it back, and whether the simulation agrees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tenfold.machine.installed import missing
from tenfold.scaling.units import percent, readable

if TYPE_CHECKING:
    import pandas

AGREES = 0.05
"""A simulation that differs by less is the same, as far as anybody can tell."""
_GOOD = 0.9
_MOVES = {
    "synchronous": {
        "communication": "a faster network, fewer bytes per parameter, more overlap or a larger batch",
        "waiting": "steadier workers (a smaller spread), or fewer of them",
    },
    "parameter servers": {
        "communication": "a faster network, fewer bytes per parameter or a larger batch",
        "waiting": "more servers, a faster network or a larger batch",
    },
    "tasks": {
        "waiting": "larger items, smaller results, and less that all workers share",
    },
    "pipeline": {
        "communication": "a faster network, or stages that send less to each other",
        "waiting": "more microbatches, or fewer stages",
    },
}
_MOVES_ALL = {
    "input": "a faster input: prepared data, more readers, or storage with a higher rate",
    "faults": "fewer failures, quicker restarts, or quicker checkpoints",
}
_WORDS = {
    "communication": "communication takes",
    "waiting": "waiting takes",
    "input": "waiting for input takes",
    "faults": "failures and checkpoints take",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One number of workers."""

    workers: int
    """How many."""
    seconds: float
    """Of a step."""
    throughput: float
    """Samples a second, of all workers."""
    efficiency: float
    """Throughput as a share of what so many would have if each were as fast as one alone."""
    low: float
    """The lower end of the throughput's 95 % interval."""
    high: float
    """The upper end."""
    simulated: float
    """The throughput of the simulated run; not a number where none was simulated."""
    parts: dict[str, float]
    """Seconds of a step: compute, communication, waiting, input, faults."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection:
    """How a training run would scale: `projection[64].throughput`, `projection.efficiency[64]`."""

    rows: tuple[Row, ...]
    """One for each number of workers, ascending."""
    how: str
    """How workers train together; "tasks" where each works for itself."""
    poor: str | None = None
    """Why the measurements behind it are not to be trusted, in a sentence."""

    def __getitem__(self, workers: int) -> Row:
        for row in self.rows:
            if row.workers == workers:
                return row
        raise KeyError(
            f"{workers} workers were not asked for; there are {', '.join(str(r.workers) for r in self.rows)}"
        )

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def efficiency(self) -> dict[int, float]:
        """Workers -> scaling efficiency."""
        return {row.workers: row.efficiency for row in self.rows}

    @property
    def bottleneck(self) -> str:
        """What holds back the largest number of workers, and what would move it."""
        row = self.rows[-1]
        if math.isinf(row.seconds):
            return f"At {row.workers:,} workers nothing is ever finished: failures come before the next checkpoint."
        start = f"At {row.workers:,} workers"
        losses = {name: seconds for name, seconds in row.parts.items() if name in _WORDS}
        worst = max(losses, key=lambda name: losses[name])
        share = losses[worst] / row.seconds
        if row.efficiency >= _GOOD or share < 0.01:
            return f"{start} compute decides: the efficiency is {percent(row.efficiency)}."
        moves = _MOVES_ALL | _MOVES[self.how]
        whole = "the time" if self.how == "tasks" else "a step"
        return f"{start} {_WORDS[worst]} {percent(share)} of {whole}; {moves[worst]} would help."

    @property
    def check(self) -> str:
        """Whether the simulation of the same run agrees."""
        if self.how == "tasks":
            return "It is drawn out of a law, and is not simulated."
        apart = {row.workers: row.simulated / row.throughput - 1 for row in self.rows if row.throughput > 0}
        if not apart:
            return "Neither the formula nor the simulation finishes a step."
        count = max(apart, key=lambda workers: abs(apart[workers]))
        if abs(apart[count]) <= AGREES:
            return f"The simulation agrees within {percent(max(abs(apart[count]), 0.001), 1)}."
        more = "more" if apart[count] > 0 else "less"
        return (
            f"The simulation has {percent(abs(apart[count]))} {more} throughput at {count:,} workers: "
            "chance matters there, so rely on its numbers."
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it in dicts, lists and numbers, for JSON; numbers that are not finite are None."""
        rows = [{k: _finite(v) for k, v in asdict(row).items()} for row in self.rows]
        return {"how": self.how, "rows": rows, "bottleneck": self.bottleneck, "check": self.check, "poor": self.poor}

    def frame(self) -> pandas.DataFrame:
        """A table: one row for each number of workers."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas, which Projection.frame() needs,", "pandas") from error
        lines = [{k: v for k, v in asdict(row).items() if k != "parts"} | row.parts for row in self.rows]
        return pandas.DataFrame(lines).set_index("workers")

    def __repr__(self) -> str:
        last = self.rows[-1]
        return f"<Projection, {self.how}: {last.workers:,} workers at {percent(last.efficiency)} efficiency>"

    def __str__(self) -> str:
        one, rate = ("an item", "items/s") if self.how == "tasks" else ("step", "samples/s")
        heads = ("workers", one, rate, "efficiency", f"95 % of {rate}", "simulated")[: 5 if self.how == "tasks" else 6]
        table = [heads, *(_cells(row)[: len(heads)] for row in self.rows)]
        widths = [max(len(line[place]) for line in table) for place in range(len(heads))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
        sentences = [self.bottleneck, self.check, *([f"The fit behind it: {self.poor}."] if self.poor else [])]
        return "\n".join([f"Projection, {self.how}", *(f"  {line}" for line in lines), *sentences])


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{row.workers:,}", readable(row.seconds), _rate(row.throughput), percent(row.efficiency, 1))
    return (*numbers, f"{_rate(row.low)} to {_rate(row.high)}", _rate(row.simulated))


def _rate(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
