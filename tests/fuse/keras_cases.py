"""All cases, by name. The tests read the names only; models are built by `keras_parity.py`, in other processes."""

from __future__ import annotations

import keras_layers  # noqa: F401  # adds its cases
import keras_settings  # noqa: F401  # adds its cases
from keras_case import BATCH, CASES, EPOCHS, Case, Params

__all__ = ["BATCH", "CASES", "EPOCHS", "Case", "Params"]
