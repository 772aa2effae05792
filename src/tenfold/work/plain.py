"""Values as JSON can hold them: results, parameters and arrays of any framework."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenfold.work.outcome import shorten

ARRAY_SHOWN = 1000  # elements; a longer array is told by its shape
DEPTH = 50  # lists in lists; a list may hold itself


def plain(value: Any, depth: int = DEPTH) -> Any:
    """The value as JSON can hold it; what it cannot is shown as Python would, shortened."""
    row = getattr(value, "__tenfold_row__", None)
    if row is not None and not isinstance(value, type):
        value = row()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no word for them
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping) and depth:
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [plain(item, depth - 1) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and depth:
        return {field.name: plain(getattr(value, field.name), depth - 1) for field in dataclasses.fields(value)}
    return _array(value) if hasattr(value, "dtype") and hasattr(value, "shape") else shorten(value)


def _array(value: Any) -> Any:
    """Scalars and arrays of NumPy, PyTorch, TensorFlow, JAX and pandas."""
    try:
        array = value if hasattr(value, "tolist") else value.numpy()
        if math.prod(array.shape) <= ARRAY_SHOWN:
            return plain(array.tolist())
        return {"shape": list(array.shape), "dtype": str(array.dtype)}
    except Exception:  # an array on a device that is not here, a type of its own: its picture has to do
        return shorten(value)
