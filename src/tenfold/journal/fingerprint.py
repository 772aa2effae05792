"""What identifies a call, part by part, so that a run that differs can be refused with what differs.

The code of a function is its bytecode with its constants and names, so comments and line numbers do not count.
Whatever of the user's it reaches is a part of its own: globals, closures, defaults, classes, helpers in modules. A
module that it imports when it runs counts as a whole, with those that this one imports. Installed libraries are not
followed.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from tenfold.journal import digest, origins


def of_value(value: object) -> bytes:
    """A digest that is equal for equal values, in every interpreter; raises what pickle raises."""
    return digest.of_value(value, lambda part: _full_name(part) if isinstance(part, type) else _of_nested(part))


def of_function(function: Callable[..., Any]) -> dict[str, str]:
    """Part -> digest: the function itself, and everything of the user's that it reaches."""
    visitor = _Visitor()
    visitor.visit(function, name_of(function))
    return visitor.parts


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What a person would call the differences."""
    changed = [f"{part} has changed" for part in before if part in now and before[part] != now[part]]
    gone = [f"{part} is not used any more" for part in before if part not in now]
    new = [f"{part} is used now" for part in now if part not in before]
    return changed + gone + new


def name_of(function: Any) -> str:
    """What a person calls the function."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    named = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(named or type(function).__name__)


class _UnderWay(threading.local):
    """Functions whose parts are being found: one that reaches itself is named, not followed."""

    def __init__(self) -> None:
        self.functions: set[int] = set()


_under_way = _UnderWay()


def _of_nested(part: Any) -> str:
    """What identifies a function, or a class, that is part of a value: its code."""
    if id(part) in _under_way.functions:
        return _full_name(part)
    return _of_library(part) if is_installed(part) else repr(sorted(of_function(part).items()))


def _of_library(part: Any) -> str:
    """Its name; of a function that a library has made for the caller, such as `normal(stddev)`, what it holds, too."""
    name = _full_name(part)
    if "<locals>" not in name or not getattr(part, "__closure__", None):
        return name
    _under_way.functions.add(id(part))
    try:
        return f"{name} with {', '.join(map(_of_cell, part.__closure__))}"
    finally:
        _under_way.functions.discard(id(part))


def _of_cell(cell: types.CellType) -> str:
    try:
        return _digest(cell.cell_contents)
    except ValueError:  # a name that is bound later
        return "nothing"


def _full_name(value: Any) -> str:
    """Of a function or a class, with its module."""
    return f"{value.__module__}.{value.__qualname__}"


class _Visitor:
    """Collects the parts of one function."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._seen: set[int] = set()

    def visit(self, value: Any, name: str) -> None:
        wrapped = getattr(value, "__wrapped__", None)
        parts = None if isinstance(value, type) else getattr(value, "__tenfold_parts__", None)
        if parts is not None:
            for key, part in parts().items():
                self.visit(part, key)
        elif isinstance(value, functools.partial):
            self.visit(value.func, name_of(value.func))
            for key, given in [*enumerate(value.args), *value.keywords.items()]:
                self.visit(given, f"argument {key} of {name_of(value.func)}")
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__, name_of(value.__func__))
            owner = value.__self__
            self.visit(owner, name_of(owner) if isinstance(owner, type) else f"the object of {name}")
        elif isinstance(value, types.FunctionType) and not is_installed(value):
            self._once(value, lambda: self._visit_function(value, name))
        elif isinstance(value, type) and not is_installed(value):
            self._once(value, lambda: self._visit_class(value, name))
        elif wrapped is not None and callable(wrapped):  # functools.cache, jax.jit, tf.function
            self.visit(wrapped, name)
        elif not isinstance(value, type | types.FunctionType | types.ModuleType) and not is_installed(type(value)):
            self._visit_object(value, name)
        elif not isinstance(value, types.ModuleType):
            self._put(name, _digest(value))

    def _once(self, value: Any, visit: Callable[[], None]) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        outermost = id(value) not in _under_way.functions
        _under_way.functions.add(id(value))
        try:
            visit()
        finally:
            if outermost:
                _under_way.functions.discard(id(value))

    def _put(self, name: str, found: str) -> None:
        """Two modules may use one name for two things: the second is another part."""
        if self.parts.setdefault(name, found) != found:
            self._put(f"{name} (another)", found)

    def _visit_function(self, function: types.FunctionType, name: str) -> None:
        self._put(f"the code of {name}", _digest_code(function.__code__))
        for cell_name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # a name that is bound later
                continue
            self.visit(content, f"{cell_name} (closed over by {name})")
        for key, default in [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]:
            self.visit(default, f"default {key} of {name}")
        registry = getattr(function, "registry", None)
        if isinstance(registry, types.MappingProxyType):  # functools.singledispatch
            self.visit(dict(registry), f"what is registered for {name}")
        names = sorted(_names(function.__code__))
        passed: set[int] = set()
        for global_name in names:
            if global_name in function.__globals__:
                self._visit_global(function.__globals__[global_name], global_name, names, passed)
        package = function.__globals__.get("__package__") or ""
        for module, code in origins.imported(function.__code__, package).items():
            self._put(f"module {module}", _digest_code(code))

    def _visit_global(self, value: Any, name: str, names: list[str], passed: set[int]) -> None:
        """A global; of a module of the user's, what the function may mean by `module.name`, also in a module of it."""
        if not isinstance(value, types.ModuleType):
            self.visit(value, f"global {name}")
        elif not origins.is_library(value.__name__) and id(value) not in passed:
            passed.add(id(value))
            for attribute in names:
                if attribute in vars(value):
                    self._visit_global(vars(value)[attribute], f"{name}.{attribute}", names, passed)

    def _visit_class(self, kind: type, name: str) -> None:
        for base in kind.__bases__:
            if not is_installed(base):
                self.visit(base, name_of(base))
        for key, member in vars(kind).items():
            for function in _functions(member):
                self.visit(function, f"{name}.{key}")
            if not key.startswith("__") and not list(_functions(member)):
                self.visit(member, f"{name}.{key}")

    def _visit_object(self, value: Any, name: str) -> None:
        """An object of the user's, whose methods may be called: its class, and its state."""
        self.visit(type(value), name_of(type(value)))
        self._put(name, _digest(value))


def _functions(member: Any) -> Iterator[Any]:
    """The functions that a member of a class is made of."""
    if isinstance(member, types.FunctionType):
        yield member
    elif isinstance(member, classmethod | staticmethod):
        yield member.__func__
    elif isinstance(member, property):
        yield from (function for function in (member.fget, member.fset, member.fdel) if function is not None)
    elif isinstance(member, functools.cached_property):
        yield member.func


def _names(code: types.CodeType) -> set[str]:
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, nested))


def _digest_code(code: types.CodeType) -> str:
    found = hashlib.blake2b(digest_size=digest.SIZE)
    found.update(code.co_code)
    found.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        is_code = isinstance(constant, types.CodeType)
        found.update((_digest_code(constant) if is_code else _stable(constant)).encode())
    return found.hexdigest()


def _stable(constant: object) -> str:
    """A frozenset of strings is printed in another order in every interpreter."""
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _digest(value: object) -> str:
    """Of what it holds, also where it can be called: a model, a chain of transforms, `operator.itemgetter(1)`."""
    if isinstance(value, type | types.FunctionType):
        return _of_nested(value)
    known: dict[int, str] = {}  # of a list of records, the class of each is asked for

    def describe(part: Any) -> str:
        if id(part) not in known:
            known[id(part)] = _of_nested(part)
        return known[id(part)]

    try:
        return digest.of_value(value, describe).hex()
    except Exception:  # something that cannot be pickled, such as an open file: its name or type has to do
        is_named = hasattr(value, "__qualname__") and hasattr(value, "__module__")
        return _full_name(value if is_named else type(value))


def is_installed(value: Any) -> bool:
    """Whether a function or class comes from an installed library rather than from the user."""
    return origins.is_library(getattr(value, "__module__", None) or "")
