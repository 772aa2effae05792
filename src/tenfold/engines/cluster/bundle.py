"""The user's own modules, which no other machine has: found in this process, unfolded on a node.

What is installed is expected on every node, and its version is compared. What lies beside the user's script, or in a
project that was never installed, travels as source: every module of it that is loaded here, and those that their code
imports later.
"""

from __future__ import annotations

import ast
import dis
import functools
import importlib.util
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_parsing = threading.Lock()
"""CPython 3.11 counts the depth of syntax trees for all threads together: two at a time fail with a SystemError."""
_NEVER = frozenset({"tenfold", "__main__", "__mp_main__"})


def collect(function: Callable[..., Any]) -> dict[str, bytes]:
    """The files of the user's own modules, by their place below a folder of the import path."""
    found: dict[str, bytes] = {}
    waiting = [name for name in list(sys.modules) if _is_own(_origin(name))]
    waiting += _imports_of_code(function)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _origin(name)
        if path is None or not _is_own(path):
            continue
        content = path.read_bytes()
        found[_place(name, path)] = content
        waiting += _imports_of_source(content, name, is_package=path.name == "__init__.py")
    return found


def unfold(files: dict[str, bytes], folder: Path) -> None:
    """Write the files below `folder`."""
    for place, content in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _place(name: str, path: Path) -> str:
    parts = name.split(".")
    return "/".join([*parts, path.name] if path.name == "__init__.py" else [*parts[:-1], path.name])


def _origin(name: str) -> Path | None:
    """The source file of a module, loaded or not; None for what is built in, frozen, or nowhere."""
    if name.partition(".")[0] in _NEVER or name.partition(".")[0] in sys.stdlib_module_names:
        return None
    module = sys.modules.get(name)
    origin = getattr(module, "__file__", None)
    if module is None:
        return _unloaded(name)
    return Path(origin) if isinstance(origin, str) and origin.endswith(".py") else None


def _unloaded(name: str) -> Path | None:
    """The same for a module that is not loaded. Asked for a whole name, `find_spec` would import the packages above."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not rest:
        return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None
    below = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    files = [file for path in below for file in (path / "__init__.py", path.with_name(f"{path.name}.py"))]
    return next((file for file in files if file.is_file()), None)


def _is_own(path: Path | None) -> bool:
    if path is None or not path.is_file():
        return False
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _installed_folders())


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _imports_of_code(function: Callable[..., Any]) -> list[str]:
    """What a function of a script or notebook imports when it runs."""
    if isinstance(function, functools.partial):
        return _imports_of_code(function.func)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return list(_imported_names(code)) if isinstance(code, types.CodeType) else []


def _imported_names(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _imported_names(constant)


@functools.lru_cache(maxsize=4096)
def _imports_of_source(content: bytes, name: str, *, is_package: bool) -> list[str]:
    """Every module that a source imports anywhere in it, its own packages first."""
    parents = name.split(".")[: None if is_package else -1]
    found = [".".join(name.split(".")[:depth]) for depth in range(1, name.count(".") + 1)]
    try:
        with _parsing:
            tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return found
    for step in ast.walk(tree):
        if isinstance(step, ast.Import):
            found += [alias.name for alias in step.names]
        elif isinstance(step, ast.ImportFrom):
            base = parents[: len(parents) - step.level + 1] if step.level else []
            whole = ".".join([*base, *([step.module] if step.module else [])])
            found += [whole, *[f"{whole}.{alias.name}" for alias in step.names]]
    return [module for module in found if module]
