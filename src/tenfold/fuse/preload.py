"""What the nursery of group workers imports: Keras on JAX, without what Keras imports only in case it is installed.

scikit-learn, pandas and matplotlib take half of the time that `import keras` takes, and a worker of groups uses none of
them: its data are NumPy arrays. They are hidden from Keras alone; a model's own code imports them as always.
"""

from __future__ import annotations

import importlib
import sys

HIDDEN = ("sklearn", "pandas", "matplotlib")


def load() -> None:
    """Import JAX and Keras."""
    import jax.numpy  # noqa: F401

    hidden = [name for name in HIDDEN if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # so that importing it is an ImportError
    try:
        importlib.import_module("keras")
    finally:
        for name in hidden:
            del sys.modules[name]


load()
