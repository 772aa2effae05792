"""Which known libraries a function uses, found in its code without running it: what a nursery imports for it."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from tenfold import frameworks

_COMPANIONS = ("scipy", "pandas", "skimage", "PIL")
"""Not frameworks, and often imported with one. Known to start no threads when they are imported."""


_LAZY = {
    "skimage": ("skimage.transform._warps", "skimage.filters", "skimage.color"),
    "PIL": ("PIL.Image", "PIL.ImageFile", "numpy", "numpy.random"),
}
"""Of a package that imports its parts when they are asked for: the parts that most ask for, and what they go into."""


def members(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the frameworks that `function` uses, as `tenfold.frameworks` calls them."""
    roots = {name.partition(".")[0] for name in _named(function, set())}
    return tuple(name for name, member in frameworks.every().items() if member.modules[0] in roots)


def preloads(root: str) -> tuple[str, ...]:
    """What to import ahead when the framework whose module is `root` is about to be used."""
    known = {member.modules[0]: member.modules for member in frameworks.every().values()} | _LAZY
    return known.get(root, (root,))


def modules(function: Callable[..., Any]) -> list[str]:
    """Modules to import ahead for `function`: those it names, and what its frameworks import on first use.

    A framework that this process has imported counts as used: it was imported for something. A function that says
    itself what it needs (`__tenfold_modules__`) is believed.
    """
    known = {member.modules[0]: member for member in frameworks.every().values()}
    named = _named(function, set())
    roots = {name.partition(".")[0] for name in named}
    says = getattr(function, "__tenfold_modules__", None)
    if says is not None:
        return list(says(roots))
    roots |= {name for name in known if name in sys.modules}
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
    home = str(getattr(thing, "__module__", None) or "")
    if home.partition(".")[0] in _installed_roots():
        return {home}
    found: set[str] = set()
    for value in _reached(thing, found):
        with contextlib.suppress(Exception):  # a proxy that refuses to be asked anything
            found |= _named(value, seen)
    return found


def _reached(thing: Any, named: set[str]) -> list[Any]:
    """What `thing` may call; the libraries that its code imports are added to `named`."""
    parts = getattr(thing, "__tenfold_parts__", None)
    if parts is not None and not isinstance(thing, type):
        return list(parts().values())
    if isinstance(thing, types.MethodType):
        return [thing.__func__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, types.FunctionType):
        values = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        for code in _codes(thing.__code__):
            named |= {name for name in code.co_names if name.partition(".")[0] in _installed_roots()}
            values += [thing.__globals__[name] for name in code.co_names if name in thing.__globals__]
        return values
    call = getattr(type(thing), "__call__", None)  # noqa: B004  # its code is wanted, not whether it has any
    return [call] if isinstance(call, types.FunctionType) else []


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
