"""Rows and outputs as models nest them: an array, or a dict, list or tuple of arrays with a row for each row.

    cut, taken, padded     some of the rows, in the same nesting
    settled, chosen        what a framework gave, as NumPy arrays, tuples and dicts; one output of several

Rows may also be a list of samples that are no arrays (texts, pictures of different sizes); only functions take those.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from tenfold.errors import BadCall

Rows = Any
"""An array, a tuple or dict of such, nested as the data has them, or a list of samples."""
Outputs = Any
"""An array, or a tuple or dict of such, nested as the model has them."""


def each(function: Callable[..., Any], *trees: Any) -> Any:
    """The same nesting of tuples and dicts, with `function` called for what stands in the same place."""
    first = trees[0]
    if isinstance(first, dict):
        return {name: each(function, *(tree[name] for tree in trees)) for name in first}
    if isinstance(first, tuple):
        return tuple(each(function, *some) for some in zip(*trees, strict=True))
    return function(*trees)


def flat(tree: Any) -> list[Any]:
    """What stands in the nesting, in order."""
    found: list[Any] = []
    each(found.append, tree)
    return found


def count(rows: Rows) -> int:
    """How many rows these are; all arrays must have as many."""
    lengths = {len(array) for array in flat(rows)}
    if len(lengths) != 1:
        raise BadCall(f"rows: expected arrays of one length, got {sorted(lengths) or 'none'}")
    return int(lengths.pop())


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Rows `start` to `stop`; of arrays a view, so nothing is copied."""
    return each(lambda array: array[start:stop], rows)


def copied(rows: Rows) -> Rows:
    """The same rows, for who may write to them."""
    return each(lambda array: array.copy() if isinstance(array, numpy.ndarray) else copy.deepcopy(array), rows)


def native(rows: Rows) -> Rows:
    """The same rows with numbers in the machine's own order of bytes: frameworks take no others."""
    return each(_native, rows)


def _native(array: Any) -> Any:
    is_foreign = isinstance(array, numpy.ndarray) and not array.dtype.isnative
    return array.astype(array.dtype.newbyteorder("=")) if is_foreign else array


def taken(rows: Rows, places: numpy.ndarray) -> Rows:
    """The rows at these places."""
    return each(lambda a: [a[place] for place in places] if isinstance(a, list) else numpy.asarray(a)[places], rows)


def padded(rows: Rows, size: int) -> Rows:
    """As many rows as `size`: the last one is repeated. Never zeros, for which a model may have no finite answer."""
    length = count(rows)
    return rows if length == size else taken(rows, numpy.minimum(numpy.arange(size), length - 1))


def apart(outputs: Outputs, rows: Rows) -> Outputs:
    """The outputs, copied where they may lie in the memory of the rows: a model may give its input."""
    given = [array for array in flat(rows) if isinstance(array, numpy.ndarray)]
    return each(lambda a: a.copy() if any(numpy.may_share_memory(a, one) for one in given) else a, outputs)


def nbytes(tree: Any) -> int:
    """Memory of the arrays; what is no array counts nothing."""
    return sum(int(getattr(array, "nbytes", 0)) for array in flat(tree))


def settled(outputs: Any, array: Callable[[Any], numpy.ndarray] = numpy.asarray) -> Outputs:
    """What a framework gave, with its tensors made arrays by `array`. Lists become tuples, mappings dicts."""
    if isinstance(outputs, Mapping):
        return {str(name): settled(value, array) for name, value in outputs.items() if value is not None}
    if isinstance(outputs, list | tuple):
        return tuple(settled(value, array) for value in outputs)
    return array(outputs)


def chosen(outputs: Any, name: str | None) -> Any:
    """The output of that name, as a dict or a named tuple has it; all of them where no name is given."""
    if name is None:
        return outputs
    fields = getattr(outputs, "_fields", None)
    known = list(outputs) if isinstance(outputs, Mapping) else list(fields or ())
    if name in known:
        return outputs[name] if isinstance(outputs, Mapping) else getattr(outputs, name)
    raise unknown(name, [str(one) for one in known])


def unknown(name: str, known: list[str]) -> BadCall:
    """The error for an output that the model does not have."""
    accepted = f"expected one of {', '.join(map(repr, known))}" if known else "its outputs have no names; leave it out"
    return BadCall(f"output={name!r}: the model has no output of that name; {accepted}")
