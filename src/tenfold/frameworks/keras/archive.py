"""A Keras model as bytes: what `model.save` writes, without what differs from save to save, and what is not of Keras.

The bytes are the same whenever the model is: dates and addresses of objects are left out. The user's own classes and
functions in it, which Keras would look for by name, are told apart, so that they can travel beside the bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
import zipfile
from collections.abc import Iterator
from typing import Any

_WEIGHTS = "model.weights.h5"
_DAY = (1980, 1, 1, 0, 0, 0)  # the first that a zip can name
_CONFIG = "config.json"


def of(model: Any, *, compiled: bool = True) -> bytes:
    """Its bytes; without `compiled` the loss and all that an optimizer remembers stay out: two thirds after Adam."""
    from keras.src.saving import saving_lib

    file = io.BytesIO()
    with tensorflow_left_alone():
        # Keras has a public way to files only, and this is what its own pickles use.
        saving_lib._save_model_to_fileobj(model, file, "h5")
    return _steady(file, compiled)


def opened(packed: bytes | memoryview, objects: dict[str, Any], *, compiled: bool, trusted: bool = True) -> Any:
    """The model in these bytes, whose own classes and functions are `objects`."""
    from keras.src.saving import saving_lib

    return saving_lib._load_model_from_fileobj(
        io.BytesIO(packed), custom_objects=objects, compile=compiled, safe_mode=not trusted
    )


def objects(model: Any, packed: bytes) -> dict[str, Any]:
    """The user's own classes and functions in the model, by the names that its bytes have for them."""
    import keras

    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        config = json.loads(file.read(_CONFIG))
    named = [part.get(key) for part in parts(config) for key in ("registered_name", "class_name", "config")]
    names = {name for name in named if isinstance(name, str)}
    known = {name: keras.saving.get_registered_object(name) for name in sorted(names)}
    found = {name: thing for name, thing in known.items() if thing is not None}
    for thing in _things(model):
        kind = thing if isinstance(thing, types.FunctionType) else type(thing)
        if (kind.__module__ or "").partition(".")[0] not in ("keras", "builtins"):
            both = (keras.saving.get_registered_name(kind), kind.__name__)
            found |= {name: kind for name in both if name in names}
    return found


def parts(config: Any) -> Iterator[dict[str, Any]]:
    """Every dict in a config, the outermost first."""
    if isinstance(config, dict):
        yield config
    for part in config.values() if isinstance(config, dict) else config if isinstance(config, list) else ():
        yield from parts(part)


def untracked(value: Any) -> Any:
    """Without Keras's own kinds of lists and dicts, which cannot be pickled."""
    if isinstance(value, dict):
        return {key: untracked(each) for key, each in value.items()}
    return [untracked(each) for each in value] if isinstance(value, list) else value


def _things(model: Any) -> Iterator[Any]:
    """Layers, what they and `compile` were given: functions, initializers, losses, and what those were given."""
    compiling = getattr(getattr(model, "_compile_config", None), "config", {})
    for thing in [*model._flatten_layers(), *_leaves(compiling)]:
        yield thing
        for value in vars(thing).values() if hasattr(thing, "__dict__") else ():
            # Keras puts wrappers of a layer's own methods into it, which hold the layer.
            is_given = isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__")
            if is_given or hasattr(type(value), "get_config"):
                yield value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


@contextlib.contextmanager
def tensorflow_left_alone() -> Iterator[None]:
    """Keras asks of all that it saves whether it is TensorFlow's, and imports that for it: 3 s, on JAX or PyTorch.

    Where TensorFlow has not been imported, none is.
    """
    lazy = getattr(sys.modules.get("keras.src.utils.module_utils"), "tensorflow", None)
    if "tensorflow" in sys.modules or lazy is None or getattr(lazy, "_available", False) is not None:
        yield
        return
    lazy._available = False
    try:
        yield
    finally:
        lazy._available = None


def _steady(file: io.BytesIO, compiled: bool) -> bytes:
    """The same archive without what differs from save to save."""
    found = io.BytesIO()
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(found, "w") as after:
        for name in sorted(before.namelist()):
            content = before.read(name)
            if name == "metadata.json":
                content = _json({**json.loads(content), "date_saved": ""})
            elif name == _CONFIG:
                config = json.loads(content)
                content = _json(_numbered(config if compiled else {**config, "compile_config": None}, {}))
            elif name == _WEIGHTS and not compiled:
                content = _without_optimizer(content)
            after.writestr(zipfile.ZipInfo(name, _DAY), content)
    return found.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _numbered(config: Any, seen: dict[int, int]) -> Any:
    """Shared objects are named by their address; by the order in which they come instead."""
    if isinstance(config, list):
        return [_numbered(part, seen) for part in config]
    if not isinstance(config, dict):
        return config
    return {
        key: seen.setdefault(part, len(seen)) if key == "shared_object_id" else _numbered(part, seen)
        for key, part in config.items()
    }


def _without_optimizer(content: bytes) -> bytes:
    import h5py

    kept = io.BytesIO()
    with h5py.File(io.BytesIO(content), "r") as before, h5py.File(kept, "w") as after:
        for key, value in before.attrs.items():
            after.attrs[key] = value
        for name in before:
            if name != "optimizer":
                before.copy(name, after)
    return kept.getvalue()
