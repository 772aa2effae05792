"""In a worker: optimizers without `torch._dynamo`, which the first one of a process imports: a second or two.

PyTorch's optimizers tell its compiler to look away (`disable`, `graph_break`), and import it for that. Here nothing is
compiled. While a group is trained, a stand-in takes these calls; whoever wants more of the compiler than that gets the
real one.
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
    sys.modules[NAME] = StandIn(NAME)
    vars(sys.modules["torch"])["_dynamo"] = sys.modules[NAME]
    try:
        yield
    finally:
        _remove()


def _remove() -> None:
    if isinstance(sys.modules.get(NAME), StandIn):
        del sys.modules[NAME]
        vars(sys.modules["torch"]).pop("_dynamo", None)
