"""What the nursery imports ahead for joblib's workers: what the caller has imported, as soon as it does.

A fit of scikit-learn needs its parts (`sklearn.svm`, `sklearn.ensemble`), which its top module does not import. Each
is passed on when the caller begins to import it, so that both imports run at the same time.
"""

from __future__ import annotations

import importlib.machinery
import pkgutil
import sys

from tenfold import frameworks
from tenfold.nursery import notice

ALWAYS = ("joblib", "tenfold.joblib.calling")
COMPANIONS = ("pandas", "skimage")
IN_PARTS = ("sklearn", "scipy")
"""Libraries of which everybody uses other parts. No part starts threads when it is imported."""


def modules() -> list[str]:
    """What this process's workers will want: the frameworks that it has imported, and their parts."""
    wanted = [module for member in frameworks.imported() for module in member.modules]
    wanted += [name for name in COMPANIONS if name in sys.modules]
    wanted += [name for name, module in list(sys.modules.items()) if module is not None and _is_part(name)]
    return list(dict.fromkeys([*ALWAYS, *wanted]))


def begin() -> None:
    """Have the nursery import what is known now, and each part that comes. Called by `import tenfold.joblib`."""
    notice.tell(modules())
    sys.meta_path.insert(0, _Parts())


class _Parts:
    """A finder that finds nothing: it tells the nursery what is about to be imported here."""

    def __init__(self) -> None:
        parts = {part for name in IN_PARTS for part in _parts(name)}
        self._expected = parts - sys.modules.keys()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._expected:
            self._expected.discard(name)
            notice.tell([name])


def _parts(name: str) -> list[str]:
    """The public parts of a library, found without importing it and without the finders that tell of imports."""
    spec = importlib.machinery.PathFinder.find_spec(name)
    places = spec.submodule_search_locations if spec is not None else None
    found = [f"{name}.{part.name}" for part in pkgutil.iter_modules(places or [])]
    return [part for part in found if _is_public(part)]


def _is_part(name: str) -> bool:
    return name.partition(".")[0] in IN_PARTS and _is_public(name)


def _is_public(name: str) -> bool:
    """Whether a name is that of a part that users import, not of something within one."""
    part = name.partition(".")[2]
    return part not in ("", "conftest", "tests") and "." not in part and not part.startswith("_")
