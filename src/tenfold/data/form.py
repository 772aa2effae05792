"""The form of prepared rows: which columns they have, of which type and shape. It comes from the first result.

What a function may return for a sample:

    an array or a number           one row with one column, `data`
    a tuple of them                one row with the columns `x` and `y`, and `sample_weight` where there are three
    a dict of them                 one row with these columns
    None                           no row: the sample is left out
    a list, or what it yields      a row for each: the sample becomes several

A function of a batch returns the same with one row after the other in each array, as many as it likes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy

from tenfold.data.stacking import as_array
from tenfold.errors import BadCall

ALONE = "data"
NAMES = ("x", "y", "sample_weight")  # as a `Fit` looks for them in a folder

NUMBERS = frozenset({float, int, bool, numpy.float32, numpy.float64})
"""Types of which one is one row, and nothing that somebody may write to."""

LONGEST = 200  # bytes of a column's name: a file's may have 255

Nesting = Literal["array", "tuple", "dict"]


@dataclass(frozen=True, slots=True)
class Column:
    """One array of a prepared set."""

    name: str
    """Of its file."""
    dtype: numpy.dtype[Any]
    """Of its numbers."""
    shape: tuple[int, ...]
    """Of a row."""

    @property
    def row_bytes(self) -> int:
        """How much of its file a row takes."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size

    def widened(self, dtype: numpy.dtype[Any]) -> Column:
        """The same with a type that holds both."""
        kinds = self.dtype.kind + dtype.kind
        alike = kinds in ("SS", "UU") or set(kinds) <= set("biufc")
        return replace(self, dtype=numpy.promote_types(self.dtype, dtype)) if alike else self

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'a number'} of {self.dtype}"


@dataclass(frozen=True, slots=True)
class Form:
    """All columns, and how they are nested in a sample."""

    nesting: Nesting
    """What a sample is: the only column's row, or a tuple or dict of rows."""
    columns: tuple[Column, ...]
    """In order."""

    @property
    def row_bytes(self) -> int:
        return sum(column.row_bytes for column in self.columns)

    def nested(self, arrays: Sequence[Any]) -> Any:
        """Arrays, one for each column, as a sample has them."""
        if self.nesting == "array":
            return arrays[0]
        if self.nesting == "tuple":
            return tuple(arrays)
        return {column.name: array for column, array in zip(self.columns, arrays, strict=True)}

    def only(self, place: int) -> Form:
        """That of one of the columns."""
        return Form("array", (self.columns[place],))

    def widened(self, other: Form) -> Form:
        """The same with types that hold those of another form, too, where both are numbers, or texts."""
        kinds = {column.name: column.dtype for column in other.columns}
        return replace(self, columns=tuple(c.widened(kinds.get(c.name, c.dtype)) for c in self.columns))

    def as_json(self) -> dict[str, Any]:
        columns = [
            {"name": column.name, "dtype": column.dtype.str, "shape": list(column.shape)} for column in self.columns
        ]
        return {"nesting": self.nesting, "columns": columns}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Form:
        columns = [Column(c["name"], numpy.dtype(c["dtype"]), tuple(c["shape"])) for c in found["columns"]]
        return cls(found["nesting"], tuple(columns))


def form_of(result: Any, *, batched: bool) -> Form:
    """The form of what a function returned: for one row, or for several with `batched`."""
    nesting, named = _named(result)
    columns = []
    for name, value in named.items():
        array = as_array(value)
        if array.dtype.kind not in "biufcSUmM":
            raise BadCall(
                f"{name} is {array.dtype} ({type(value).__name__}): expected numbers, or texts of a fixed length"
            )
        if batched and not array.ndim:
            raise BadCall(f"{name} is a single number: a function of a batch returns a row for each sample")
        # Not every format keeps an order of bytes of its own.
        columns.append(Column(name, array.dtype.newbyteorder("="), array.shape[1:] if batched else array.shape))
    if not columns:
        raise BadCall("an empty dict or tuple has no columns")
    return Form(nesting, tuple(columns))


def _named(result: Any) -> tuple[Nesting, Mapping[str, Any]]:
    if isinstance(result, Mapping):
        bad = [name for name in result if not _is_name(name)]
        if bad:
            raise BadCall(f"{bad[0]!r} cannot be the name of a column: it becomes the name of a file")
        return "dict", result
    if isinstance(result, tuple):
        names = NAMES[: len(result)] if len(result) in (2, 3) else [str(place) for place in range(len(result))]
        return "tuple", dict(zip(names, result, strict=True))
    return "array", {ALONE: result}


def _is_name(name: object) -> bool:
    """Whether it can be that of a file, with some more after it."""
    return (
        isinstance(name, str)
        and 0 < len(name.encode(errors="surrogatepass")) <= LONGEST
        and name[0] not in "._"
        and not {"/", "\0"} & {*name}
    )


def rows_of(result: Any) -> list[Any]:
    """The rows that one sample has become."""
    if isinstance(result, list) or hasattr(result, "__next__"):
        return [kept(row) for row in result if row is not None]
    return [] if result is None else [kept(result)]


def kept(row: Any) -> Any:
    """A row that stays as it is until it is written: a copy of arrays that the function may fill again for the next."""
    is_fresh = type(row) is numpy.ndarray and row.base is None and sys.getrefcount(row) <= _FRESH
    return row if is_fresh else _copied(row)


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    if hasattr(value, "detach"):  # a tensor of PyTorch's
        return as_array(value).copy()
    return value.copy() if isinstance(value, numpy.ndarray) else value


def _references(row: Any) -> int:
    return sys.getrefcount(row)


def _of_a_fresh_array() -> int:
    """How many references `kept` sees of an array that nobody has but who asks: not the same in every Python."""
    made = numpy.empty(0)
    return _references(made)


_FRESH = _of_a_fresh_array()


def block_of(rows: Sequence[Any], form: Form) -> list[numpy.ndarray[Any, Any]]:
    """Rows one upon the other, an array for each column. BadCall where one has another form; `odd` says which."""
    return [_stacked([parts[place] for parts in _values(rows, form)], c) for place, c in enumerate(form.columns)]


def batch_of(result: Any, form: Form) -> list[numpy.ndarray[Any, Any]]:
    """What a function of a batch returned, an array for each column."""
    arrays = [as_array(value) for value in _parts(result, form)]
    for array, column in zip(arrays, form.columns, strict=True):
        _check(array.dtype, array.shape[1:], column)
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{c.name} {len(a)}" for a, c in zip(arrays, form.columns, strict=True))
        raise BadCall(f"the columns have different numbers of rows: {lengths}")
    return [numpy.ascontiguousarray(a, c.dtype) for a, c in zip(arrays, form.columns, strict=True)]


def check_row(row: Any, form: Form) -> None:
    """BadCall where it has another form."""
    for value, column in zip(_parts(row, form), form.columns, strict=True):
        array = as_array(value)
        _check(array.dtype, array.shape, column)


def _values(rows: Sequence[Any], form: Form) -> list[Sequence[Any]]:
    return [(row,) for row in rows] if form.nesting == "array" else [_parts(row, form) for row in rows]


def _parts(result: Any, form: Form) -> list[Any]:
    nesting, named = _named(result)
    names = [column.name for column in form.columns]
    if nesting != form.nesting or set(named) != set(names):
        raise BadCall(f"it returned {_words(nesting, named)}, and the first sample {_words(form.nesting, names)}")
    return [named[name] for name in names]


def _words(nesting: Nesting, names: Any) -> str:
    if nesting == "array":
        return "one array"
    return f"a tuple of {len(names)}" if nesting == "tuple" else f"a dict of {', '.join(names)}"


def _stacked(values: list[Any], column: Column) -> numpy.ndarray[Any, Any]:
    kinds = {type(value) for value in values}
    if kinds <= {float, int, bool} and not column.shape:  # the quick way for plain numbers
        found = numpy.asarray(values)
        _check(found.dtype, (), column)
        return found.astype(column.dtype, copy=False)
    if len(kinds) == 1 and not column.shape and _is_kind(kinds.pop(), column.dtype):
        return numpy.array(values, column.dtype)
    found = numpy.empty((len(values), *column.shape), column.dtype)
    for place, value in enumerate(values):
        array = value if type(value) is numpy.ndarray else as_array(value)
        if array.dtype != column.dtype or array.shape != column.shape:
            _check(array.dtype, array.shape, column)
        found[place] = array
    return found


def _is_kind(kind: type, dtype: numpy.dtype[Any]) -> bool:
    """Whether NumPy's numbers of a type are all of `dtype`; not so of texts and dates, whose types say too little."""
    return dtype.kind in "biufc" and kind is dtype.type


def _check(dtype: numpy.dtype[Any], shape: tuple[int, ...], column: Column) -> None:
    if shape == column.shape and (dtype == column.dtype or numpy.can_cast(dtype, column.dtype, "safe")):
        return
    found = Column(column.name, dtype, shape)
    text = "; return numpy.array(text, 'U100'), with a length that fits all texts" if dtype.kind in "SU" else ""
    raise BadCall(f"{column.name} is {found}, and of the first sample {column}{text}")
