"""Keras 3, whatever its backend. The backend's own file settles threads and devices; this one seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tenfold.frameworks import Framework


class Member(Framework):
    modules = ("keras",)
    distributions = ("keras",)
    extra = "keras"
    import_variables = ("KERAS_",)

    def seed(self, seed: int) -> None:
        # keras.utils.set_random_seed would import TensorFlow on every backend; this is the rest of what it does.
        state = sys.modules.get("keras.src.backend.common.global_state")
        if state is None:  # keras 2
            return
        state.set_global_attribute("global_random_seed", seed)
        state.set_global_attribute("global_seed_generator", None)

    def keep_random(self) -> Callable[[], None] | None:
        state = sys.modules.get("keras.src.backend.common.global_state")
        if state is None:
            return None
        names = ("global_random_seed", "global_seed_generator")
        before = {name: state.get_global_attribute(name) for name in names}

        def give_back() -> None:
            for name, value in before.items():
                state.set_global_attribute(name, value)

        return give_back
