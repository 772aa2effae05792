"""Notices when a framework is imported: before it happens, or when it is done.

The caller's process uses it to start a nursery while its own import is still under way; a worker uses it to settle
and seed a framework that a task imports by itself. Such an import is also spared the garbage collector's visits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # 15 ms at every `import tenfold`


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """For a framework's import: what it makes stays for good, so the garbage collector need not look at it.

    Collections are a fifth of the 3.6 s of `import tensorflow`, and one second more when the interpreter exits. What
    exists when the import is done is never visited again, in forks neither; what is made later is collected as ever.
    """
    if not gc.isenabled():  # an import within an import; or the user wants no collections
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


class Arrivals:
    """A finder that finds nothing new: it calls back, and lets the others find."""

    def __init__(
        self,
        names: Iterable[str],
        *,
        before: Callable[[str], None] | None = None,
        after: Callable[[str], None] | None = None,
    ) -> None:
        self._names = {name for name in names if name not in sys.modules}
        self._before = before
        self._after = after
        self._announced: set[str] = set()
        self._asking: set[str] = set()

    def watch(self) -> None:
        if self._names and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names or name in self._asking:
            return None
        if self._before is not None and name not in self._announced:
            self._announced.add(name)
            self._before(name)
        self._asking.add(name)  # the others may be watching, too, and ask us
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Announcing(spec.loader, self._arrived))
        return spec

    def _arrived(self, name: str) -> None:
        if name not in self._names:
            return
        self._names.discard(name)
        if self._after is not None:
            self._after(name)


class _Announcing:
    """The real loader, and a call when it has loaded."""

    def __init__(self, loader: Loader, after: Callable[[str], None]) -> None:
        self._loader = loader
        self._after = after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # what pkgutil and importlib.resources ask for
        module.__loader__ = self._loader
        with uncollected():
            self._loader.exec_module(module)
        self._after(module.__name__)
