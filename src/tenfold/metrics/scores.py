"""What `evaluate` gives: a value for each metric, with intervals, bounds and groups where they were asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.errors import BadCall
from tenfold.machine.installed import missing
from tenfold.metrics.port import Value

if TYPE_CHECKING:
    import pandas

SHOWN = 12
"""How many groups, and how many labels of a confusion matrix, are printed."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scores(Mapping[str, Value]):
    """The scores of a model, by name: `scores["accuracy"]`."""

    rows: int
    """How many were scored."""
    by_name: dict[str, Value]
    """Name -> value."""
    intervals: dict[str, Any] = field(default_factory=dict)
    """Name -> (low, high), or label -> (low, high) for scores per class; from a bootstrap."""
    bounds: dict[str, float] = field(default_factory=dict)
    """Name -> how far an approximate value may be from the exact one."""
    labels: tuple[Any, ...] = ()
    """The labels of the rows and columns of the confusion matrix."""
    groups: dict[Any, Scores] = field(default_factory=dict)
    """Value of the column in `by` -> the scores of its rows."""

    def __getitem__(self, name: str) -> Value:
        if name not in self.by_name:
            raise KeyError(f"{name!r} was not scored; there are {', '.join(self.by_name)}")
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def interval(self, name: str) -> Any:
        """Where the value lies with 95 %: (low, high); for scores per class, label -> (low, high)."""
        self[name]
        if name not in self.intervals:
            why = "it is not a number" if self.intervals else "there was no bootstrap; ask for one with bootstrap=1000"
            raise BadCall(f"interval({name!r}): {why}")
        return self.intervals[name]

    def as_dict(self) -> dict[str, Any]:
        """All of it in dicts, lists and numbers, for JSON; numbers that are not finite are None."""
        told: dict[str, Any] = {"rows": self.rows, "scores": _plain(self.by_name)}
        for name in ("intervals", "bounds"):
            if getattr(self, name):
                told[name] = _plain(getattr(self, name))
        if self.labels:
            told["labels"] = list(self.labels)
        if self.groups:
            told["groups"] = {str(group): scores.as_dict() for group, scores in self.groups.items()}
        return told

    def frame(self) -> pandas.DataFrame:
        """A table: one row for each number, by group, metric and class. Matrices and curves are left out."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas, which Scores.frame() needs,", "pandas") from error
        lines = [{"group": None, **line} for line in self._lines()]
        for group, scores in self.groups.items():
            lines += [{"group": group, **line} for line in scores._lines()]
        names = ("group", "metric", "class", "value", "low", "high", "bound", "rows")
        kept = [name for name in names if any(line.get(name) is not None for line in lines)]
        # Labels are objects: pandas would make floats of whole numbers beside nothing.
        kinds = {"group": object, "class": object}
        return pandas.DataFrame(
            {name: pandas.Series([line.get(name) for line in lines], dtype=kinds.get(name)) for name in kept}
        )

    def _lines(self) -> list[dict[str, Any]]:
        lines = []
        for name, value in self.by_name.items():
            for label, number in value.items() if isinstance(value, dict) else [(None, value)]:
                if not isinstance(number, float | int):
                    continue
                line = {
                    "metric": name,
                    **({} if label is None else {"class": label}),
                    "value": number,
                    "rows": self.rows,
                }
                interval = self.intervals.get(name)
                if interval is not None:
                    line["low"], line["high"] = interval if label is None else interval[label]
                if name in self.bounds:
                    line["bound"] = self.bounds[name]
                lines.append(line)
        return lines

    def __repr__(self) -> str:
        numbers = [f"{name} {value:.4g}" for name, value in self.by_name.items() if isinstance(value, float)]
        return f"<Scores of {self.rows} rows: {', '.join(numbers) or ', '.join(self.by_name)}>"

    def __str__(self) -> str:
        lines = [f"Scores of {self.rows} rows", *_table(self)]
        for name, value in self.by_name.items():
            if isinstance(value, numpy.ndarray) and value.ndim == 2 and len(self.labels) == len(value) <= SHOWN:
                lines += [f"  {name}, true in rows", *_matrix(value, self.labels)]
        for group, scores in list(self.groups.items())[:SHOWN]:
            lines += [f"  {group!r}, {scores.rows} rows", *(f"  {line}" for line in _table(scores))]
        if len(self.groups) > SHOWN:
            lines.append(f"  ... {len(self.groups) - SHOWN} more groups")
        return "\n".join(lines)


def _table(scores: Scores) -> list[str]:
    lines = scores._lines()
    words = [line["metric"] + (f" of {line['class']!r}" if "class" in line else "") for line in lines]
    width = max((len(word) for word in words), default=0)
    return [f"  {word:<{width}}  {_number(line)}" for word, line in zip(words, lines, strict=True)]


def _number(line: dict[str, Any]) -> str:
    text = f"{line['value']:.6g}"
    if "low" in line:
        text += f"  ({line['low']:.6g} to {line['high']:.6g})"
    if "bound" in line:
        text += f"  (off by at most {line['bound']:.2g})"
    return text


def _matrix(matrix: Any, labels: tuple[Any, ...]) -> list[str]:
    cells = [["", *map(str, labels)]]
    cells += [[str(label), *(f"{cell:g}" for cell in row)] for label, row in zip(labels, matrix, strict=True)]
    width = max(len(cell) for row in cells for cell in row)
    return ["    " + " ".join(cell.rjust(width) for cell in row) for row in cells]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, numpy.ndarray | numpy.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
