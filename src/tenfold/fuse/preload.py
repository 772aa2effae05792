"""What the nursery of group workers imports: Keras on JAX, without what Keras imports only in case it is needed.

scikit-learn, pandas and matplotlib take half of the time that `import keras` takes, and a worker of groups uses none of
them: its data are NumPy arrays. Sparse matrices and kernels for TPUs are a third of the rest. All of that is hidden
from Keras and JAX while they are imported; a model's own code imports it as always.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any

HIDDEN = ("sklearn", "pandas", "matplotlib", "requests")
"""Which Keras can do without."""
_SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
LATER = ("scipy.sparse", "scipy.sparse.linalg", _SPLASH)
"""Which it names, and imports when something of theirs is asked for."""


class _Later(types.ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == _SPLASH:  # its parts are imported by name
            return _Later(f"{_SPLASH}.{name}")
        _reveal({known: module for known, module in sys.modules.items() if isinstance(module, _Later)})
        return getattr(importlib.import_module(self.__name__), name)


def _reveal(hidden: Mapping[str, Any]) -> None:
    for name, stand_in in hidden.items():
        if sys.modules.get(name, hidden) is stand_in:
            del sys.modules[name]


def load() -> None:
    """Import JAX and Keras."""
    import jax.numpy  # noqa: F401

    stand_ins = {**dict.fromkeys(HIDDEN), **{name: _Later(name) for name in LATER}}
    hidden = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None: to import it is an ImportError
    try:
        importlib.import_module("keras")
    finally:
        _reveal(hidden)


load()
