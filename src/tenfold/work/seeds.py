"""Randomness belongs to the task, not the worker.

Task number `index` of a call with `seed` is given `numpy.random.SeedSequence(seed).spawn(n)[index]`, whoever runs it
and however often. Its first 32 bits seed Python, NumPy and every framework that the worker has imported.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import math
import operator
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from tenfold import frameworks


def sequence(seed: int, index: int) -> numpy.random.SeedSequence:
    """The same as `SeedSequence(seed).spawn(index + 1)[index]`, without making the others."""
    return numpy.random.SeedSequence(seed, spawn_key=(index,))


def number(seed: int, index: int) -> int:
    """The task's seed as 32 bits, which is what every framework takes."""
    return int(sequence(seed, index).generate_state(1)[0])


def plant(seed: int) -> None:
    """Seed everything in this process that draws global random numbers."""
    random.seed(seed)
    for member in frameworks.imported():
        member.seed(seed)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Give the caller's random numbers back afterwards: for tasks that run in the caller's own process."""
    python = random.getstate()
    undo = [member.keep_random() for member in frameworks.imported()]
    try:
        yield
    finally:
        random.setstate(python)
        for step in undo:
            if step is not None:
                step()


_PURE_MODULES = ("builtins", "math", "_operator")
_IMPURE_BUILTINS = frozenset(
    {"__import__", "compile", "eval", "exec", "getattr", "iter", "next", "open", "input", "print", "repr", "format"}
    | {"globals", "locals", "vars", "setattr", "delattr", "sorted", "methodcaller", "attrgetter", "call"}
)


PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
"""Types of items that cannot do anything of their own when they are calculated with."""


def draws_none(function: Callable[..., Any]) -> bool:
    """Whether `function` certainly draws no random numbers on a plain item, so that seeding (20 us) can be left out.

    True only for code that names nothing but arithmetic: builtins, `math`, and constants. Anything else, a method
    call even, may end in a random number.
    """
    if isinstance(function, types.BuiltinFunctionType):
        return _is_pure(function)
    if not isinstance(function, types.FunctionType) or function.__closure__ or function.__kwdefaults__:
        return False
    if any(type(default) not in PLAIN for default in function.__defaults__ or ()):
        return False
    return _only_arithmetic(function)


def _only_arithmetic(function: types.FunctionType) -> bool:
    module = None  # the module that the last instruction loaded, if it was one of those we know
    for step in dis.get_instructions(function):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = getattr(module, step.argval, None)
            if not _is_pure(value):
                return False
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = function.__globals__.get(step.argval, getattr(builtins, step.argval, None))
            if value is not math and value is not operator and not _is_pure(value):
                return False
        elif step.opname in ("IMPORT_NAME", "MAKE_FUNCTION", "STORE_GLOBAL"):
            return False
        else:
            value = None
        module = value if isinstance(value, types.ModuleType) else None
    return True


def _is_pure(value: object) -> bool:
    if isinstance(value, types.BuiltinFunctionType):
        return value.__module__ in _PURE_MODULES and value.__name__ not in _IMPURE_BUILTINS
    return type(value) in (int, float, bool) or any(value is kind for kind in (int, float, bool, range))
