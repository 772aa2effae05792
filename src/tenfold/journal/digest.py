"""Digests of values that are equal for equal values, in every interpreter.

A pickle is not quite that: sets have another order in each interpreter, equal parts that are one object are written
once, and cloudpickle gives the classes of a script numbers of their own. So values are pickled here in a way of their
own, only to be hashed.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import pickle
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from tenfold.work.parcel import PROTOCOL, reducers

SIZE = 8  # bytes

Describe = Callable[[types.FunctionType], str]
"""What identifies a function."""

_SETS = (b"\x8f", b"\x91")  # pickle's opcodes for a set and a frozenset
_LEAVES = (int, float, complex, str, bytes, bool, type(None), type, types.FunctionType, types.BuiltinFunctionType)


def of_value(value: object, describe: Describe) -> bytes:
    """The digest; raises what pickle raises where there is none."""
    body, buffers = _dump(value, describe)
    if any(opcode in body for opcode in _SETS):  # or a byte that looks like one: then it is only slower
        body, buffers = _dump(_in_order(value, describe), describe)
    found = hashlib.blake2b(body, digest_size=SIZE)
    for buffer in buffers:
        found.update(buffer)
    return found.digest()


def _in_order(value: Any, describe: Describe) -> Any:
    """The value with every set in it turned into a sorted list, and every object into what it is made from."""
    if isinstance(value, set | frozenset):
        return [type(value).__name__, sorted(of_value(member, describe) for member in value)]
    if type(value) in (list, tuple):
        return [_in_order(member, describe) for member in value]
    if type(value) is dict:
        return [(_in_order(key, describe), _in_order(member, describe)) for key, member in value.items()]
    if isinstance(value, _LEAVES) or not hasattr(value, "__dict__"):
        return value
    return [type(value), _in_order(vars(value), describe)]


class _Pickler(pickle.Pickler):
    """Pickles what identifies a value: functions by their code, classes and modules by their name."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview], describe: Describe) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        self._describe = describe

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return str, (self._describe(value),)
        if isinstance(value, type) and value.__module__ != "builtins":
            return str, (f"{value.__module__}.{value.__qualname__}",)
        if isinstance(value, types.ModuleType):
            return str, (value.__name__,)
        return NotImplemented


def _dump(value: object, describe: Describe) -> tuple[bytes, list[memoryview]]:
    """Without a memo first, so that it does not matter whether equal parts are the same object; circles need one."""
    try:
        return _dump_with(value, describe, memo=False)
    except (RecursionError, ValueError):
        return _dump_with(value, describe, memo=True)


def _dump_with(value: object, describe: Describe, *, memo: bool) -> tuple[bytes, list[memoryview]]:
    file = io.BytesIO()
    buffers: list[memoryview] = []
    pickler = _Pickler(file, buffers, describe)
    table: ChainMap[Any, Any] = ChainMap(reducers(), copyreg.dispatch_table)
    pickler.dispatch_table = table
    pickler.fast = not memo
    pickler.dump(value)
    return file.getvalue(), buffers
