"""Which known libraries a function uses, found in its code without running it: what a nursery imports for it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from tenfold import frameworks

_COMPANIONS = ("scipy", "pandas", "skimage", "PIL")
"""Not frameworks, and often imported with one. Known to start no threads when they are imported."""


def members(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the frameworks that `function` uses, as `tenfold.frameworks` calls them."""
    roots = {name.partition(".")[0] for name in _named(function, set())}
    return tuple(name for name, member in frameworks.every().items() if member.modules[0] in roots)


def preloads(root: str) -> tuple[str, ...]:
    """What to import ahead when the framework whose module is `root` is about to be used."""
    return next((member.modules for member in frameworks.every().values() if member.modules[0] == root), (root,))


def modules(function: Callable[..., Any]) -> list[str]:
    """Modules to import ahead for `function`: those it names, and what its frameworks import on first use.

    A framework that this process has imported counts as used: it was imported for something.
    """
    known = {member.modules[0]: member for member in frameworks.every().values()}
    named = _named(function, set())
    roots = {name.partition(".")[0] for name in named} | {name for name in known if name in sys.modules}
    wanted = [module for root, member in known.items() if root in roots for module in member.modules]
    wanted += sorted(name for name in named if name.partition(".")[0] in (*known, *_COMPANIONS))
    return list(dict.fromkeys(wanted))


def _named(thing: Any, seen: set[int]) -> set[str]:
    """Names of modules that a function, or a function that it calls, names in its code."""
    if id(thing) in seen or len(seen) > 1000:
        return set()
    seen.add(id(thing))
    if isinstance(thing, types.ModuleType):
        return {thing.__name__}
    thing = getattr(thing, "__func__", getattr(thing, "func", thing))  # a method, a functools.partial
    home = getattr(thing, "__module__", None) or ""
    if not isinstance(thing, types.FunctionType) or home.partition(".")[0] in _installed_roots():
        return {home} if isinstance(home, str) and home else set()
    found = set()
    cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
    for code in _codes(thing.__code__):
        found |= {name for name in code.co_names if name.partition(".")[0] in _installed_roots()}
        cells += [thing.__globals__[name] for name in code.co_names if name in thing.__globals__]
    for value in cells:
        found |= _named(value, seen)
    return found


def _installed_roots() -> frozenset[str]:
    return frozenset({member.modules[0] for member in frameworks.every().values()} | set(_COMPANIONS))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
