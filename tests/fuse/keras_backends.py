"""In a process of any backend: models that tenfold trains alone are those that `model.fit` makes by hand.

Started by `test_keras_backends.py`. Prints how far apart they are, by the case's name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import keras
import keras_parity
from keras_cases import CASES


def main(names: Sequence[str]) -> None:
    if keras.backend.backend() != "tensorflow":
        sys.modules["tensorflow"] = None  # type: ignore[assignment]  # keras.utils.set_random_seed would import it: 4 s
    print(json.dumps({"backend": keras.backend.backend(), "found": {name: _compare(name) for name in names}}))


def _compare(name: str) -> dict[str, Any]:
    case = CASES[name]
    params = case.items[-1]
    alone, hand = keras_parity.fit_of(case)(params), keras_parity.by_hand(case, params)
    losses = alone.history["loss"]
    names = keras_parity.names_of(case, len(hand.weights))
    return keras_parity.apart(alone, hand, names, case.atol) | {"learned": losses[0] - losses[-1]}
