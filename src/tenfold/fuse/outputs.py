"""What a trained model gives for rows: an array, or a dict, list or tuple of them, as the model nests them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

Outputs = Any
"""An array with a row for each row of the data, or a dict, list or tuple of such."""


def each(function: Callable[..., Any], *trees: Outputs) -> Outputs:
    """The same nesting, with `function` called for the arrays that stand in the same place. Lists stay lists."""
    first = trees[0]
    if isinstance(first, dict):
        return {name: each(function, *(tree[name] for tree in trees)) for name in first}
    if isinstance(first, list | tuple):
        found = [each(function, *some) for some in zip(*trees, strict=True)]
        return found if isinstance(first, list) else tuple(found)
    return function(*trees)


def joined(parts: Sequence[Outputs], axis: int = 0) -> Outputs:
    """Outputs for rows that follow one another, as one."""
    return each(lambda *arrays: numpy.concatenate(arrays, axis), *parts)
