"""Keras 3, whatever its backend. The backend's own file settles threads and devices; this one seeds and pickles."""

from __future__ import annotations

import pickle
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from tenfold.frameworks import Framework
from tenfold.frameworks.keras import archive


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

    def reducer(self, kind: type) -> Callable[[Any], Any] | None:
        """Of models, also of the user's own classes, unless these say how they are pickled."""
        model = getattr(sys.modules.get("keras.src.models.model"), "Model", None)
        if model is None or not issubclass(kind, model) or kind.__reduce__ is not model.__reduce__:
            return None
        return _reduce

    def identity(self, kind: type) -> Callable[[Any], Any] | None:
        """Of layers, metrics, optimizers, initializers: their pickles have dates, and numbers drawn for a seed."""
        is_keras = any(map(_is_of_keras, kind.__mro__))
        return _told if is_keras and hasattr(kind, "get_config") and self.reducer(kind) is None else None


def _told(value: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a lambda in it, which is not to be opened again
        config = archive.untracked(value.get_config())
    weights = [numpy.asarray(weight) for weight in getattr(value, "weights", ())]
    return tuple, ((f"{type(value).__module__}.{type(value).__qualname__}", config, _untold(value), weights),)


_SETTINGS = (bool, int, float, str, tuple, list, dict, numpy.ndarray, numpy.generic, types.FunctionType)


def _untold(value: Any) -> dict[str, Any]:
    """What the user's own class was made with, where its configuration is the one that it has from Keras's class."""
    kinds = type(value).__mro__
    if not _is_of_keras(next(kind for kind in kinds if "get_config" in vars(kind))):
        return {}
    members = [member for kind in kinds if _is_of_keras(kind) for member in vars(kind).values()]
    functions = [member for member in members if isinstance(member, types.FunctionType)]
    keras_own = {name for function in functions for name in function.__code__.co_names}
    found = {name: part for name, part in vars(value).items() if name not in keras_own and isinstance(part, _SETTINGS)}
    return {name: archive.untracked(part) for name, part in sorted(found.items())}


def _is_of_keras(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "keras"


def _reduce(model: Any) -> Any:
    """The same model is the same bytes, so what is there is not sent again; with what Keras could not find there."""
    packed = archive.of(model)
    return opened, (pickle.PickleBuffer(packed), archive.objects(model, packed))


def opened(packed: bytes | memoryview, objects: dict[str, Any]) -> Any:
    """The model again, as compiled as it was. Its name is in pickles that journals keep."""
    return archive.opened(packed, objects, compiled=True)
