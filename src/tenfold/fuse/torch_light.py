"""In a worker: groups of models without PyTorch's compiler, parts of which are imported though nothing is compiled.

- `torch._dynamo`, by the first optimizer of a process: a second or two. Optimizers tell the compiler to look away
  (`disable`, `graph_break`). While a group is trained, a stand-in takes these calls; whoever wants more of the compiler
  than that gets the real one.
- SymPy, by the first check of an argument in an operation that vmap takes apart, such as the cross entropy: 0.2 s. It
  is asked whether a condition with unknown sizes holds; one that is plainly true need not be asked about.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

NAME = "torch._dynamo"


class StandIn(types.ModuleType):
    """What optimizers need of the compiler."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        return function

    @staticmethod
    def graph_break(*_: Any, **__: Any) -> None:
        """There is no graph."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # that is asked for by an import of a part of it
            raise AttributeError(name)
        _remove()
        return getattr(importlib.import_module(NAME), name)


@contextlib.contextmanager
def light() -> Iterator[None]:
    """Do without the compiler in this block, where it is not there yet."""
    if NAME in sys.modules or "torch" not in sys.modules:
        yield
        return
    torch = vars(sys.modules["torch"])
    sys.modules[NAME] = torch["_dynamo"] = StandIn(NAME)
    checked = torch["_check_with"]

    def check_with(error_type: Any, condition: Any, message: Any) -> None:
        if condition is not True:
            checked(error_type, condition, message)

    torch["_check_with"] = check_with
    try:
        yield
    finally:
        torch["_check_with"] = checked
        _remove()


def _remove() -> None:
    if isinstance(sys.modules.get(NAME), StandIn):
        del sys.modules[NAME]
        vars(sys.modules["torch"]).pop("_dynamo", None)
