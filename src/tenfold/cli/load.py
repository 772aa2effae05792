"""`FILE.py:NAME` and `package.module:name`: from what was typed to the function, or other object, that is meant.

The file is loaded as a module, with its folder first on `sys.path` as if it were run, but it is not `__main__`: what
is under `if __name__ == "__main__"` does not run. It travels to workers by value, so that they need not find it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import cloudpickle

from tenfold.errors import BadCall

_OURS = (str(Path(__file__)), "<frozen importlib")


def function(target: str) -> Callable[..., Any]:
    """The function that `target` names, or BadCall with the functions that are there."""
    place, module, name = _found(target)
    found = _member(place, module, name)
    if not callable(found):
        raise BadCall(f"'{place}:{name}' is no function but of type {type(found).__name__}: {_offer(place, module)}")
    result: Callable[..., Any] = found
    return result


def member(target: str) -> Any:
    """Whatever `target` names: data, a model, a function."""
    return _member(*_found(target))


def _found(target: str) -> tuple[str, ModuleType, str]:
    """Its place as typed, the module, and the name in it."""
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, ""
    if not place:
        raise BadCall(f"{target!r}: expected FILE.py:NAME, such as train.py:train, or package.module:name")
    is_file = place.endswith(".py") or os.sep in place or Path(place).is_file()
    module = _file(Path(place)) if is_file else _module(place)
    if not name:
        raise BadCall(f"{target!r}: say which function of it: {_offer(place, module)}")
    return place, module, name


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadCall(f"{str(path)!r}: there is no such file{_python_files(path.parent)}")
    path = path.absolute()
    before = _loaded_before(path)
    if before is not None:
        return before
    # A file called random.py must not take the place of a module that somebody has imported.
    name = path.stem if path.stem not in sys.modules else f"tenfold_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadCall(f"{str(path)!r} is not a Python file: expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _cannot_load(str(path), error) from error
    cloudpickle.register_pickle_by_value(module)
    return module


def _loaded_before(path: Path) -> ModuleType | None:
    """A call may name several objects of one file, which are then of one module."""
    for name in (path.stem, f"tenfold_file_{path.stem}"):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None) == str(path):
            return module if name in cloudpickle.list_registry_pickle_by_value() else None
    return None


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name and name.startswith(error.name):
            raise BadCall(f"{name!r}: there is no such file, and no module of that name") from error
        raise _cannot_load(name, error) from error


def _cannot_load(place: str, error: BaseException) -> BaseException:
    """What loading raised, as an error for the one who wrote the file: with its traceback, without our frames."""
    if isinstance(error, KeyboardInterrupt):
        return error
    text = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__))).rstrip()
    return BadCall(f"{place!r} cannot be loaded: {type(error).__name__}: {error}\n\n{text}")


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _member(place: str, module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise BadCall(f"{place!r} has no {name!r}: {_offer(place, module)}")
        found = getattr(found, part)
    return found


def _offer(place: str, module: ModuleType) -> str:
    """Its own functions, and what trains models together: a `Fit`."""
    own = [
        f"{place}:{name}"
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (hasattr(type(value), "together") or (inspect.isfunction(value) and value.__module__ == module.__name__))
    ]
    return f"there is {', '.join(own)}" if own else "there is no function in it"


def _python_files(folder: Path) -> str:
    with contextlib.suppress(OSError):
        names = sorted(path.name for path in folder.glob("*.py"))
        if names:
            return f"; there is {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return ""
