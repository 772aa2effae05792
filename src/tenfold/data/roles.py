"""Which of a source's columns go into a model, which is the truth, which weighs rows, and which groups them.

an array                 goes into the model
(x, y), (x, y, weight)   x goes into the model, as Keras reads a tuple; so several inputs are ((a, b), y)
a dict of columns        `inputs` go into the model: one column as it is, several numbers as a matrix, others as a dict;
                         to a model that knows its columns by name, all of them as a dict
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.data.form import NAMES
from tenfold.data.source import Rows, Source
from tenfold.errors import BadCall


class Beside(dict[str, Any]):
    """Columns that can go into a model as one array, unless it knows them by name."""

    as_table: bool
    """Nobody said which columns go in, so that a model which takes anything is given them by name."""

    def matrix(self) -> Any:
        """Numbers side by side, or the only column."""
        columns = list(self.values())
        return numpy.column_stack(columns) if all(map(_is_numbers, columns)) else columns[0]


@dataclass(frozen=True, slots=True)
class Roles:
    """What a caller said about columns."""

    inputs: str | Sequence[str] | None = None
    """Go into the model."""
    target: str | None = None
    """What should come out."""
    weight: str | None = None
    """How much a row counts."""
    by: str | None = None
    """Whose values make groups."""

    def x(self, rows: Rows) -> Any:
        """What goes into the model."""
        if isinstance(self.inputs, str):
            return column(rows, self.inputs, "inputs")
        if self.inputs is not None:
            return together({name: column(rows, name, "inputs") for name in self.inputs})
        if isinstance(rows, tuple):
            return rows[0]
        if isinstance(rows, Mapping):
            others = {name: rows[name] for name in rows if name not in (self.target, self.weight, self.by)}
            return together(others, as_table=self.target is None)
        return rows

    def truth(self, rows: Rows) -> Any:
        if self.target is not None:
            return column(rows, self.target, "target")
        if isinstance(rows, tuple) and len(rows) in (2, 3):
            return rows[1]
        raise BadCall(
            "source: there is nothing to compare predictions with; expected (x, y) or (x, y, sample_weight), "
            "or a table and target='the name of its column'"
        )

    def weights(self, rows: Rows) -> Any:
        if self.weight is None and not (isinstance(rows, tuple) and len(rows) == 3):
            return None
        name = NAMES[2] if self.weight is None else self.weight
        found = numpy.asarray(column(rows, name, "weight"))
        if found.dtype.kind not in "biuf" or found.shape not in ((len(found),), (len(found), 1)):
            raise BadCall(f"weight={name!r}: {_told(found)}; expected a number")
        return found

    def groups(self, rows: Rows) -> Any:
        if self.by is None:
            return None
        found = numpy.asarray(column(rows, self.by, "by"))
        if found.ndim != 1:
            raise BadCall(f"by={self.by!r}: {_told(found)}; expected one value")
        return found


def look_at(source: Source, *looks: Callable[[Rows], Any]) -> None:
    """What a caller said about columns, on the first row: BadCall before any work starts. A stream is not touched."""
    if source.length is None:
        return
    try:
        rows = source.read(0, 1)
    except Exception:  # a corrupt sample: whoever works on it says so
        return
    faults = []
    for look in looks:
        try:
            look(rows)
        except BadCall as error:
            faults.append(str(error))
    if faults:
        raise BadCall("; ".join(dict.fromkeys(faults)))


def column(rows: Rows, name: str, argument: str) -> Any:
    """One column by its name; those of a tuple are called x, y and sample_weight."""
    known = rows
    if isinstance(rows, tuple):
        known = dict(zip(NAMES, rows, strict=False))
    if not isinstance(known, Mapping) or name not in known:
        there = ", ".join(map(str, known)) if isinstance(known, Mapping) else "no names, only one array"
        raise BadCall(f"{argument}={name!r}: there is no such column; the source has {there}")
    return known[name]


def _told(array: numpy.ndarray) -> str:
    shape = f" of shape {array.shape[1:]}" if array.ndim > 1 else ""
    return f"a row of it is {array.dtype}{shape}"


def together(columns: dict[str, Any], *, as_table: bool = False) -> dict[str, Any]:
    """`Beside` where it is one column, or all are numbers, one a row each; anything else as it is."""
    if len(columns) != 1 and not all(map(_is_numbers, columns.values())):
        return columns
    found = Beside(columns)
    found.as_table = as_table
    return found


def _is_numbers(column: Any) -> bool:
    return isinstance(column, numpy.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf"
