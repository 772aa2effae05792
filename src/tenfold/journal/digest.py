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
from collections.abc import Callable
from typing import Any, ClassVar

from tenfold.work.parcel import PROTOCOL, Table, reducers

SIZE = 8  # bytes

Describe = Callable[[Any], str]
"""What identifies a function or a class."""

_SETS = (b"\x8f", b"\x91")  # pickle's opcodes for a set and a frozenset


def of_value(value: object, describe: Describe) -> bytes:
    """The digest; raises what pickle raises where there is none."""
    body, buffers = _dump(value, describe, _Quick)
    if any(opcode in body for opcode in _SETS):  # or a byte that looks like one: then it is only slower
        body, buffers = _dump(value, describe, _InOrder)
    found = hashlib.blake2b(body, digest_size=SIZE)
    for buffer in buffers:
        found.update(buffer)
    return found.digest()


def _identity(value: Any, describe: Describe) -> Any:
    """Functions and classes are pickled as what identifies them, modules by their name."""
    if isinstance(value, types.FunctionType) or (isinstance(value, type) and value.__module__ != "builtins"):
        return str, (describe(value),)
    if isinstance(value, types.ModuleType):
        return str, (value.__name__,)
    return NotImplemented


class _Quick(pickle.Pickler):
    """pickle's own, in C."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview], describe: Describe) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        self._describe = describe

    def reducer_override(self, value: Any) -> Any:
        return _identity(value, self._describe)


class _InOrder(pickle._Pickler):
    """pickle's own in Python, which can be told how to write a set: sorted by the digests of its members."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview], describe: Describe) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        self._describe = describe

    def reducer_override(self, value: Any) -> Any:
        return _identity(value, self._describe)

    def save_set(self, value: Any) -> None:
        self.save((type(value).__name__, sorted(of_value(member, self._describe) for member in value)))  # type: ignore[attr-defined]

    dispatch: ClassVar[Any] = {**pickle._Pickler.dispatch, set: save_set, frozenset: save_set}


class _Told(Table):
    """How values are pickled only to be told apart."""

    def __missing__(self, kind: Any) -> Callable[[Any], Any]:
        found = (member.identity(kind) for member in self.members)
        return next((way for way in found if way is not None), None) or super().__missing__(kind)


def _dump(value: object, describe: Describe, kind: type[Any]) -> tuple[bytes, list[memoryview]]:
    """Without a memo first, so that it does not matter whether equal parts are the same object; circles need one."""
    try:
        return _dump_with(value, describe, kind, memo=False)
    except (RecursionError, ValueError):
        return _dump_with(value, describe, kind, memo=True)


def _dump_with(value: object, describe: Describe, kind: type[Any], *, memo: bool) -> tuple[bytes, list[memoryview]]:
    file = io.BytesIO()
    buffers: list[memoryview] = []
    pickler = kind(file, buffers, describe)
    pickler.dispatch_table = _Told(reducers(), copyreg.dispatch_table)
    pickler.fast = not memo
    pickler.dump(value)
    return file.getvalue(), buffers
