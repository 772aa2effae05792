"""What identifies a call, part by part, so that a run that differs can be refused with what differs.

The code of a function is its bytecode with its constants and names, so comments and line numbers do not count. The
functions and plain values that it reaches (globals, closures, defaults) are parts of their own; installed libraries
are not followed.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Callable
from typing import Any

from tenfold.work.parcel import Parcel, pack

DIGEST = 8  # bytes of an item's digest


def of_item(item: object) -> bytes:
    """A digest that is equal for equal items."""
    return of_parcel(pack(item))


def of_parcel(parcel: Parcel) -> bytes:
    found = hashlib.blake2b(parcel.body, digest_size=DIGEST)
    for buffer in parcel.buffers:
        found.update(buffer)
    return found.digest()


def of_function(function: Callable[..., Any]) -> dict[str, str]:
    """Part -> digest: the function itself, and everything of the user's that it reaches."""
    parts: dict[str, str] = {}
    _visit(function, _name(function), parts, set())
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
        _visit(value.func, _name(value.func), parts, seen)
        for key, given in [*enumerate(value.args), *value.keywords.items()]:
            _visit(given, f"argument {key} of {_name(value.func)}", parts, seen)
    elif isinstance(value, types.MethodType):
        _visit(value.__func__, _name(value.__func__), parts, seen)
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
        return f"{getattr(value, '__module__', '')}.{_name(value)}"
    try:
        return of_parcel(pack(value)).hex()
    except Exception:  # something that cannot be pickled, such as an open file: its type has to do
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _name(function: Any) -> str:
    return str(
        getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    )


def _is_installed(value: Any) -> bool:
    """Whether it comes from an installed library rather than from the user."""
    module = sys.modules.get(getattr(value, "__module__", "") or "")
    file = getattr(module, "__file__", None) or ""
    return (
        "site-packages" in file
        or file.startswith(sys.base_prefix)
        or (module is not None and not file and getattr(module, "__name__", "") != "__main__")
    )
