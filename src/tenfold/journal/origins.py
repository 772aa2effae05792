"""Which modules are the user's, and which of those code imports when it runs. Nothing is imported to find that out:
a module that only workers import may be slow, or may not even be for this machine.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import sysconfig
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from typing import Any

_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]
_OURSELVES = __name__.partition(".")[0]
_IMPORT = dis.opmap["IMPORT_NAME"]


def is_library(module: str) -> bool:
    """Whether it is installed, rather than the user's."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.builtin_module_names or module == "builtins"
    return _is_installed(file)


def _is_installed(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file or file.startswith(_STANDARD_LIBRARY)


def imported(code: types.CodeType, package: str) -> dict[str, types.CodeType]:
    """The code of the user's modules that some code of a package imports, and of those that they import in turn."""
    found: dict[str, types.CodeType] = {}
    seen: set[str] = set()
    waiting = [(code, package)]
    while waiting:
        for name in _named(*waiting.pop()):
            if name not in seen:
                seen.add(name)
                with contextlib.suppress(Exception):  # not valid Python, or not to be found: whoever imports it says so
                    spec = _spec(name)
                    whole = None if spec is None else spec.loader.get_code(name)  # type: ignore[union-attr]
                    if spec is not None and whole is not None:  # not compiled to a library of the machine's
                        found[name] = whole
                        waiting.append((whole, spec.parent or ""))
    return found


def _named(code: types.CodeType, package: str) -> Iterator[str]:
    """What may be a module in its import statements: `from a import b` runs a, and b may be one too."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant, package)
    if _IMPORT not in code.co_code[::2]:
        return
    level: Any = None  # it and `names` are loaded in front of the instruction
    names: Any = None
    for step in dis.get_instructions(code):
        if step.opcode == _IMPORT:
            with contextlib.suppress(ImportError):  # beyond the top of the package
                name = resolve_name("." * (level or 0) + str(step.argval), package)
                yield from (name[:end] for end in [*_dots(name), len(name)])
                yield from (f"{name}.{one}" for one in names or ())
        if step.opname != "EXTENDED_ARG":
            level, names = names, step.argval


def _spec(name: str) -> ModuleSpec | None:
    """Where a module of the user's is. `importlib.util.find_spec` would import the packages around it."""
    if name.partition(".")[0] == _OURSELVES:
        return None
    finders = [finder for finder in sys.meta_path if not type(finder).__module__.startswith(f"{_OURSELVES}.")]
    spec: ModuleSpec | None = None
    for end in [*_dots(name), len(name)]:
        path = None if spec is None else spec.submodule_search_locations
        found = (finder.find_spec(name[:end], path) for finder in finders)
        spec = next((each for each in found if each is not None), None)
        if spec is None or _is_installed(spec.origin or ""):
            return None
    return spec


def _dots(name: str) -> list[int]:
    return [place for place, letter in enumerate(name) if letter == "."]
