"""One file per framework: what it needs from us. The rest of tenfold names none of them.

A member is a subclass of `Framework` called `Member` in a file of its own; `every()` finds it by listing this folder.
Members import their framework only inside methods that are called when the framework is already imported.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from tenfold.plan.seats import Seat


class Framework:
    """The port. A member overrides what its framework needs; the defaults do nothing.

    `variables` is called without the framework being imported, before a worker's first task. All other methods are
    called only when `modules[0]` is in `sys.modules`. None of them may create a tensor or open a device, except
    `settle` and `seed`, which run in a worker and never in the nursery.
    """

    modules: tuple[str, ...] = ()
    """What a nursery imports: first the framework itself, then what its first use would import."""
    distributions: tuple[str, ...] = ()
    """Packages that provide it, the one to install first."""
    extra: str = ""
    """The extra of tenfold that installs it."""
    import_variables: tuple[str, ...] = ()
    """Prefixes of the environment variables that decide what its import does. Not those of threads: a nursery sets
    them itself, and joblib changes one (KMP_INIT_AT_FORK) in whatever process imports it."""

    def variables(self, seat: Seat) -> dict[str, str]:
        """The environment that keeps it within the seat; set before it starts."""
        return {}

    def settle(self, seat: Seat) -> Callable[[], None] | None:
        """What only a call can set: threads, mostly. Returns what undoes it, where it can be undone."""
        return None

    def seed(self, seed: int) -> None:
        """Seed its global random numbers with 32 bits."""

    def keep_random(self) -> Callable[[], None] | None:
        """Remember its global random numbers; returns what gives them back."""
        return None

    def started(self) -> bool:
        """Whether it has created a tensor or opened a device, after which its process must not fork."""
        return False

    def reducers(self) -> dict[type, Callable[[Any], Any]]:
        """How its values are pickled so that large buffers travel beside the pickle, not in it."""
        return {}

    def reducer(self, kind: type) -> Callable[[Any], Any] | None:
        """The same for a type that `reducers` does not name: a subclass of the user's, for example."""
        return None

    def identity(self, kind: type) -> Callable[[Any], Any] | None:
        """How values of a type are pickled only to be told apart, where a pickle of theirs is not always the same."""
        return None


@functools.cache
def every() -> dict[str, Framework]:
    """All members by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").Member() for name in names}


def imported() -> list[Framework]:
    """The members whose framework this process has imported."""
    return [member for member in every().values() if is_imported(member)]


def is_imported(member: Framework) -> bool:
    module = sys.modules.get(member.modules[0])
    # While an import is under way the module is there but empty; its spec says so.
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)
