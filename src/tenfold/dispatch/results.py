"""What a call gives back: a sequence in item order that opens values when they are read."""

from __future__ import annotations

import html
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from tenfold.errors import TaskError, ValueUnreadable
from tenfold.journal.store import Journal
from tenfold.machine.installed import missing
from tenfold.plan.needs import readable
from tenfold.work.outcome import Failure, Outcome, Report, Unopened, shorten
from tenfold.work.times import duration

if TYPE_CHECKING:
    import pandas

SHOWN = 8


class Results(Sequence[Any]):
    """The values of a call, in item order. The place of a failed task holds its `TaskError`.

    Values stay in the journal until they are read. One that was read by its index is kept, so that it is the same
    object the next time; going through all of them keeps none.
    """

    def __init__(
        self,
        journal: Journal,
        count: int,
        *,
        seconds: float = 0.0,
        workers: int = 0,
        received: Callable[[Any], Any] | None = None,
    ) -> None:
        self._journal = journal
        self._count = count
        self._read: dict[int, Any] = {}
        self._block: list[Outcome] = []
        self._received = received  # gives a value what did not travel with it
        self.seconds = seconds
        """How long the call took."""
        self.workers = workers
        """How many tasks ran at once."""
        weakref.finalize(self, journal.close)

    # -- the sequence -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        index = operator.index(index)
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(f"result {index} of {self._count}")
        if place not in self._read:
            self._read[place] = self._value(self._outcome(place))
        return self._read[place]

    def __iter__(self) -> Iterator[Any]:
        expected = 0
        for first, values in self._journal.values():
            for index in range(expected, min(first, self._count)):
                yield _missing(index).error
            expected = first + len(values)
            if self._is_plain and expected <= self._count and Unopened not in set(map(type, values)):
                yield from values
                continue
            for index, value in enumerate(values, first):
                if index < self._count:
                    yield self._read[index] if index in self._read else self._checked(index, value)
        for index in range(expected, self._count):
            yield _missing(index).error

    @property
    def _is_plain(self) -> bool:
        """Values can be given out as they are."""
        return not self._read and self._received is None

    def _value(self, outcome: Outcome) -> Any:
        return outcome.error if outcome.failure is not None else self._checked(outcome.index, outcome.value)

    def _checked(self, index: int, value: Any) -> Any:
        if type(value) is Unopened:
            raise ValueUnreadable(f"the value of task {index} cannot be opened here: {value.reason}")
        return value if self._received is None else self._received(value)

    def _outcome(self, index: int) -> Outcome:
        if not self._block or not self._block[0].index <= index <= self._block[-1].index:
            try:
                self._block = self._journal.block(index)
            except LookupError:
                return _missing(index)
        return self._block[index - self._block[0].index]

    @property
    def journal(self) -> Journal:
        """What happened, for reports."""
        return self._journal

    # -- more than values ---------------------------------------------------------------------------------------

    @property
    def outcomes(self) -> Iterator[Outcome]:
        """What became of each task, in item order; tasks that were never run (the call was stopped) come as failed."""
        expected = 0
        for outcome in self._journal.outcomes():
            if outcome.index >= self._count:
                return
            yield from map(_missing, range(expected, outcome.index))
            yield outcome
            expected = outcome.index + 1
        yield from map(_missing, range(expected, self._count))

    @property
    def failures(self) -> list[TaskError]:
        """One error per failed task, in item order, each with the worker's traceback."""
        return [error for outcome in self._journal.outcomes(ok=False) if (error := outcome.error) is not None]

    def reports(self, index: int | None = None) -> Iterator[Report]:
        """What tasks told with `here().report`, of one task or of all."""
        return self._journal.reports(index)

    def frame(self) -> pandas.DataFrame:
        """A table: one row per task, with columns from the item and the value where those are dicts."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas, which Results.frame() needs,", "pandas") from error
        rows = [_record(outcome) for outcome in self.outcomes]
        return pandas.DataFrame(rows, index=pandas.RangeIndex(len(rows), name="task"))

    # -- for people ---------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """One line."""
        done, failed = self._journal.counts()
        words = [f"{self._count} tasks", f"{done} done"] + ([f"{failed} failed"] if failed else [])
        if self.workers:
            words.append(f"{duration(self.seconds)} with {self.workers} at a time")
        return ", ".join(words)

    def __repr__(self) -> str:
        lines = [f"Results: {self.summary()}"]
        for place, outcome in zip(range(SHOWN), self.outcomes, strict=False):
            text = shorten(outcome.value, 60) if outcome.failure is None else f"failed: {outcome.failure.summary}"
            lines.append(f"  [{place}] {shorten_line(text, 90)}")
        if self._count > SHOWN:
            lines.append(f"  ... {self._count - SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for _, outcome in zip(range(SHOWN), self.outcomes, strict=False):
            text = shorten(outcome.value, 80) if outcome.failure is None else f"failed: {outcome.failure.summary}"
            cells = [str(outcome.index), shorten(outcome.item, 40), shorten_line(text, 100), duration(outcome.seconds)]
            cells.append(readable(outcome.peak) if outcome.peak else "")
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in ("task", "item", "value", "time", "peak memory"))
        more = f"<p>... {self._count - SHOWN} more</p>" if self._count > SHOWN else ""
        summary = html.escape(self.summary())
        return f"<div><b>{summary}</b><table><tr>{head}</tr>{''.join(rows)}</table>{more}</div>"


def shorten_line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _missing(index: int) -> Outcome:
    failure = Failure("died", "it was not run: the call was stopped before its turn")
    return Outcome(index, False, None, failure, 0.0, 0.0, 0, -1, "", 0)


def _record(outcome: Outcome) -> dict[str, Any]:
    """A row of the table; what is called the same in the item and the value is shown twice, under two names."""
    item = outcome.item if isinstance(outcome.item, dict) else {"item": outcome.item}
    row = getattr(outcome.value, "__tenfold_row__", None)
    value = row() if row is not None else outcome.value
    value = value if isinstance(value, dict) else {"value": value}
    error = outcome.failure.summary if outcome.failure is not None else None
    told = {"seconds": outcome.seconds, "attempts": outcome.attempts, "error": error}
    found = dict(item)
    for source, kind in (({} if outcome.failure else value, "value"), (told, "tenfold")):
        found |= {f"{key} ({kind})" if key in found else key: value for key, value in source.items()}
    return found
