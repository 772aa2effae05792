"""Keras 3, whatever its backend. The backend's own file settles threads and devices; this one seeds and pickles."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from typing import Any

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

    def reducers(self) -> dict[type, Callable[[Any], Any]]:
        """Of models of Keras's own classes; the user's are pickled as Keras does it."""
        modules = {"keras.src.models.sequential": "Sequential", "keras.src.models.functional": "Functional"}
        return {getattr(sys.modules[name], kind): _reduce for name, kind in modules.items() if name in sys.modules}


def _reduce(model: Any) -> Any:
    """As Keras does it, without the time: the same model is the same bytes, and what is there is not sent again."""
    rebuild, (archive,) = model.__reduce__()
    return rebuild, (_without_time(archive),)


def _without_time(archive: io.BytesIO) -> io.BytesIO:
    found = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(found, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "metadata.json":
                content = json.dumps({**json.loads(content), "date_saved": ""}).encode()
            new.writestr(zipfile.ZipInfo(name), content)  # of 1980, where nothing else is said
    found.seek(0)
    return found
