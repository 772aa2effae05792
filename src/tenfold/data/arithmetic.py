"""In a worker: functions of one sample that do nothing but arithmetic, and so can be called with many samples at once.

Such a function gives the same numbers for an array of samples as for each of them, to the bit: its operations are
rounded in one way only, and none of them sees more than one number of each sample. That has to be certain, so what is
not known here to be harmless is called sample by sample: a branch, a call of anything else, an attribute; `**`,
`numpy.exp` and `numpy.maximum`, which NumPy may compute otherwise for an array than for one number (of 0 and -0, either
is the larger).
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy

from tenfold.data.source import Rows

AT_ONCE = 1 << 20
"""Bytes of samples that are given together: more would leave the processor's cache between two operations."""

KINDS = "biuf"
"""Of numbers: products of complex ones are rounded otherwise in arrays."""
ONE_PROMOTION = int(numpy.__version__.split(".")[0]) >= 2
"""Before NumPy 2, the type of a result depended on whether a number was in an array."""

UFUNCS = frozenset(
    {
        *(numpy.add, numpy.subtract, numpy.multiply, numpy.divide, numpy.negative, numpy.positive),
        *(numpy.absolute, numpy.sqrt, numpy.square),
        *(numpy.floor, numpy.ceil, numpy.trunc, numpy.rint, numpy.floor_divide, numpy.remainder),
        *(numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal, numpy.equal, numpy.not_equal),
    }
)
NAMES = frozenset({"abs", "true_divide", "mod", *(ufunc.__name__ for ufunc in UFUNCS)})
"""By which they are found in NumPy; arrays have no attributes of these names."""
OPERATORS = frozenset({"+", "-", "*", "/", "//", "%"})
"""Not those that write to their left side: of a number that is another thing than of an array."""
INSTRUCTIONS = frozenset(
    {
        *("RESUME", "NOP", "CACHE", "EXTENDED_ARG", "COPY_FREE_VARS", "PUSH_NULL", "POP_TOP", "COPY", "SWAP"),
        *("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD"),
        *("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW"),
        *("LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"),
        *("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "PRECALL", "CALL", "RETURN_VALUE"),
        *("GET_ITER", "FOR_ITER", "END_FOR", "POP_ITER", "JUMP_BACKWARD"),  # loops over a `range` of known length
    }
)
"""Of Python 3.11 to 3.14. There is no jump on a condition among them."""


class Arithmetic:
    """Of one function: how many samples it may be given at once, and what comes of them."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._is_known: dict[int, bool] = {}  # by the dimensions of a sample

    def together(self, rows: Rows) -> int:
        """How many of these samples; 1 where it does more than arithmetic."""
        if type(rows) is not numpy.ndarray or rows.dtype.kind not in KINDS or not rows.size:
            return 1
        step = AT_ONCE // (rows.nbytes // len(rows))
        dimensions = rows.ndim - 1
        if dimensions not in self._is_known:
            self._is_known[dimensions] = is_arithmetic(self._function, dimensions)
        return step if step > 1 and self._is_known[dimensions] else 1

    def __call__(self, rows: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any] | None:
        """A row for each of these samples; None where it fails on one of them, or makes rows of other shapes."""
        try:
            found = self._function(rows)
        except Exception:  # whose fault it is, is found out sample by sample
            return None
        return found if type(found) is numpy.ndarray and found.shape == rows.shape else None


def is_arithmetic(function: Callable[[Any], Any], dimensions: int) -> bool:
    """Whether it does nothing but arithmetic with a sample of so many dimensions, a number or an array."""
    if not ONE_PROMOTION or type(function) is not FunctionType or not _takes_one(function):
        return False
    if not all(_is_harmless(step, function, dimensions) for step in dis.get_instructions(function)):
        return False
    sample = _Sample()
    try:
        held = [*(function.__defaults__ or ()), *(cell.cell_contents for cell in function.__closure__ or ())]
        return all(_is_number(value, dimensions) for value in held) and function(sample) is sample
    except Exception:
        return False


def _takes_one(function: FunctionType) -> bool:
    code = function.__code__
    others = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
    is_plain = not code.co_flags & (others | inspect.CO_ASYNC_GENERATOR) and not code.co_kwonlyargcount
    return is_plain and code.co_argcount - len(function.__defaults__ or ()) == 1


def _is_harmless(step: dis.Instruction, function: FunctionType, dimensions: int) -> bool:
    if step.opname not in INSTRUCTIONS:
        return False
    if step.opname == "BINARY_OP":
        return step.argrepr in OPERATORS
    if step.opname == "LOAD_CONST":
        return step.argval is None or _is_number(step.argval, dimensions)
    if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return step.argval in NAMES
    if step.opname != "LOAD_GLOBAL":
        return True
    value = function.__globals__.get(step.argval, getattr(builtins, step.argval, None))
    if any(value is known for known in (numpy, range, abs)):
        return True
    return value in UFUNCS if isinstance(value, numpy.ufunc) else _is_number(value, dimensions)


def _is_number(value: Any, dimensions: int) -> bool:
    """Or an array that meets the numbers of each sample by itself."""
    if type(value) is numpy.ndarray:
        return value.ndim <= dimensions and value.dtype.kind in KINDS
    return type(value) in (int, float, bool) or (isinstance(value, numpy.generic) and value.dtype.kind in KINDS)


class _Sample:
    """Stands for a sample: arithmetic with it gives one again; who looks at it, or into it, gets an error."""

    __hash__ = None  # type: ignore[assignment]

    def _same(self, *_: Any) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _same

    def __bool__(self) -> bool:
        raise TypeError("what a function does must not depend on the value")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return self if ufunc in UFUNCS and method == "__call__" and not named else NotImplemented
