"""What identifies a call, part by part, so that a run that differs can be refused with what differs.

The code of a function is its bytecode with its constants and names, so comments and line numbers do not count. The
functions and plain values that it reaches (globals, closures, defaults) are parts of their own; installed libraries
are not followed.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import io
import json
import pickle
import sys
import sysconfig
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from tenfold.work.parcel import PROTOCOL, reducers

DIGEST = 8  # bytes


def of_value(value: object) -> bytes:
    """A digest that is equal for equal values, in every interpreter; raises what pickle raises."""
    body, buffers = _dump(value)
    if any(opcode in body for opcode in _SETS):  # or a byte that looks like one: then it is only slower
        body, buffers = _dump(_in_order(value))
    found = hashlib.blake2b(body, digest_size=DIGEST)
    for buffer in buffers:
        found.update(buffer)
    return found.digest()


_SETS = (b"\x8f", b"\x91")  # pickle's opcodes for a set and a frozenset, whose order differs between interpreters


def _in_order(value: Any) -> Any:
    """Plain containers with every set turned into a sorted list."""
    if isinstance(value, set | frozenset):
        return sorted(of_value(member) for member in value)
    if type(value) in (list, tuple):
        return [_in_order(member) for member in value]
    if type(value) is dict:
        return [(_in_order(key), _in_order(member)) for key, member in value.items()]
    return value


class _Pickler(pickle.Pickler):
    """Pickles what identifies a value: functions by their code, classes and modules by their name.

    cloudpickle would put a script's classes in by value, with numbers that are new in every interpreter.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType) and not _is_installed(value):
            return str, (json.dumps(of_function(value)),)
        if isinstance(value, type) and value.__module__ != "builtins":
            return str, (f"{value.__module__}.{value.__qualname__}",)
        if isinstance(value, types.ModuleType):
            return str, (value.__name__,)
        return NotImplemented


def _dump(value: object) -> tuple[bytes, list[memoryview]]:
    """Without a memo first, so that it does not matter whether equal parts are the same object; cycles need one."""
    try:
        return _dump_with(value, memo=False)
    except (RecursionError, ValueError):
        return _dump_with(value, memo=True)


def _dump_with(value: object, *, memo: bool) -> tuple[bytes, list[memoryview]]:
    file, buffers = io.BytesIO(), list[memoryview]()
    pickler = _Pickler(file, PROTOCOL, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
    table: ChainMap[Any, Any] = ChainMap(reducers(), copyreg.dispatch_table)
    pickler.dispatch_table = table
    pickler.fast = not memo
    pickler.dump(value)
    return file.getvalue(), buffers


def of_function(function: Callable[..., Any]) -> dict[str, str]:
    """Part -> digest: the function itself, and everything of the user's that it reaches."""
    parts: dict[str, str] = {}
    _visit(function, name_of(function), parts, set())
    return parts


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What a person would call the differences."""
    changed = [f"{part} has changed" for part in before if part in now and before[part] != now[part]]
    gone = [f"{part} is not used any more" for part in before if part not in now]
    new = [f"{part} is used now" for part in now if part not in before]
    return changed + gone + new


def _visit(value: Any, name: str, parts: dict[str, str], seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        _visit(value.func, name_of(value.func), parts, seen)
        for key, given in [*enumerate(value.args), *value.keywords.items()]:
            _visit(given, f"argument {key} of {name_of(value.func)}", parts, seen)
    elif isinstance(value, types.MethodType):
        _visit(value.__func__, name_of(value.__func__), parts, seen)
        _visit(value.__self__, f"the object of {name}", parts, seen)
    elif isinstance(value, types.FunctionType) and not _is_installed(value):
        _visit_function(value, name, parts, seen)
    elif isinstance(value, type) and not _is_installed(value):
        for key, member in vars(value).items():
            if isinstance(member, types.FunctionType):
                _visit(member, f"{name}.{key}", parts, seen)
    elif isinstance(value, types.ModuleType):
        return
    else:
        parts[name] = _digest_value(value)


def _visit_function(function: types.FunctionType, name: str, parts: dict[str, str], seen: set[int]) -> None:
    parts[f"the code of {name}"] = _digest_code(function.__code__)
    for cell_name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # a name that is bound later
            continue
        _visit(content, f"{cell_name} (closed over by {name})", parts, seen)
    defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    for key, default in defaults:
        _visit(default, f"default {key} of {name}", parts, seen)
    for global_name in sorted(_names(function.__code__)):
        if global_name in function.__globals__:
            _visit(function.__globals__[global_name], f"global {global_name}", parts, seen)


def _names(code: types.CodeType) -> set[str]:
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, nested)) if nested else set(code.co_names)


def _digest_code(code: types.CodeType) -> str:
    found = hashlib.blake2b(digest_size=DIGEST)
    found.update(code.co_code)
    found.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        is_code = isinstance(constant, types.CodeType)
        found.update((_digest_code(constant) if is_code else _stable(constant)).encode())
    return found.hexdigest()


def _stable(constant: object) -> str:
    """A frozenset of strings is printed in another order in every interpreter."""
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _digest_value(value: object) -> str:
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{name_of(value)}"
    try:
        return of_value(value).hex()
    except Exception:  # something that cannot be pickled, such as an open file: its type has to do
        return f"{type(value).__module__}.{type(value).__qualname__}"


def name_of(function: Any) -> str:
    """What a person calls the function."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(
        getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    )


def _is_installed(value: Any) -> bool:
    """Whether it comes from an installed library rather than from the user."""
    name = getattr(value, "__module__", None) or ""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name not in ("__main__", "") and name in sys.builtin_module_names
    return "site-packages" in file or "dist-packages" in file or file.startswith(_STANDARD_LIBRARY)


_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]
