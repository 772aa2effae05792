"""Keras models as the caller has them: a live one, or a `.keras` file, as the bytes of that format.

The bytes of a live model are the same whenever its layers and weights are: dates, addresses of objects and what its
optimizer remembers (two thirds of a model that Adam has trained) are left out. Classes and functions that are not of
Keras travel beside them. A file is sent as it is, and opened as Keras opens a file that it does not trust.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenfold.errors import BadCall
from tenfold.frameworks.jax import quick_compilations
from tenfold.machine import installed
from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.work import parcel

_WEIGHTS = "model.weights.h5"
_DAY = (1980, 1, 1, 0, 0, 0)  # the first that a zip can name


class KerasModel(Model):
    """Holds a parcel: the bytes, the classes and functions to open them with, and whether they are trusted."""

    modules = ("keras",)
    one_form = True

    @property
    def changes_nothing(self) -> bool:
        return os.environ.get("KERAS_BACKEND") != "torch"  # whose layers may work in place

    def load(self) -> Predict:
        try:
            import keras
        except ImportError as error:
            raise installed.missing("Keras", "keras") from error
        archive, objects, trusted = parcel.unpack(self.content)
        try:
            with quick_compilations():  # initial weights, which are not even kept
                model = _opened(archive, objects, trusted)
        except Exception as error:
            raise BadCall(
                f"model: Keras {keras.__version__} on {keras.backend.backend()} cannot open it in a worker: "
                f"{type(error).__name__}: {error}. Of a file, layers that are not Keras's own are not known here: load "
                "it with keras.saving.load_model(..., custom_objects=...) and give the model itself"
            ) from error
        return _running(keras.backend.backend(), model, self.output)

    def describe(self) -> str:
        return "a Keras model"


def _running(backend: str, model: Any, output: str | None) -> Predict:
    """The model, ready in this process's backend."""
    if backend == "tensorflow":
        from tenfold.models.keras_tensorflow import OnTensorFlow

        return OnTensorFlow(model, output)
    from tenfold.models.keras_running import OnJax, OnTorch

    return OnJax(model, output) if backend == "jax" else OnTorch(model, output)


def of_file(path: Path, output: str | None) -> KerasModel:
    """A `.keras` file. Keras need not be here."""
    try:
        archive = path.read_bytes()
    except OSError as error:
        raise BadCall(f"model={str(path)!r}: cannot be read: {error}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            config = json.loads(file.read("config.json"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise BadCall(
            f"model={str(path)!r}: not a model that Keras 3 has saved: {type(error).__name__}: {error}. Expected a "
            "file that model.save('name.keras') wrote"
        ) from error
    if any(part.get("class_name") == "__lambda__" for part in _objects(config)):
        raise BadCall(
            f"model={str(path)!r}: has a Lambda layer, which is code inside a file; such files are not opened. Load it "
            "with keras.saving.load_model(path, safe_mode=False), where you trust it, and give the model itself"
        )
    return KerasModel(parcel.pack((archive, {}, False)).to_bytes(), output)


def of_live(model: Any, output: str | None) -> KerasModel:
    """A model of this process."""
    import keras

    if not model.built:
        raise BadCall(
            f"model={model.name!r}: a Keras model that has no weights yet; call it on some rows, or give it an Input"
        )
    names = output_names(model)
    if output is not None and names and output not in names:
        raise nesting.unknown(output, names)
    file = io.BytesIO()
    try:
        _save(model, file)
        archive = _steady(file)
    except Exception as error:
        raise BadCall(
            f"model={model.name!r}: Keras cannot save it, so it cannot be sent to a worker: "
            f"{type(error).__name__}: {error}"
        ) from error
    objects = _custom(keras, model, archive)
    return KerasModel(packed((archive, objects, True), "a Keras model"), output).known_by(model=archive, **objects)


def output_names(model: Any) -> list[str]:
    """What the outputs are called; none of a model that only its code knows."""
    outputs = getattr(model, "outputs", None)
    if not outputs:
        return []
    if not hasattr(model, "output_names"):  # layers in a row
        return [str(model.layers[-1].name)]
    return [str(name) for name in (model.output if isinstance(model.output, dict) else model.output_names)]


# -- bytes ------------------------------------------------------------------------------------------------------------


def _save(model: Any, file: io.BytesIO) -> None:
    """What `model.save` writes; Keras has a public way to files only, and this is what its pickles use."""
    from keras.src.saving import saving_lib

    with _tensorflow_left_alone():
        saving_lib._save_model_to_fileobj(model, file, "h5")


@contextlib.contextmanager
def _tensorflow_left_alone() -> Iterator[None]:
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


def _opened(archive: bytes, objects: dict[str, Any], trusted: bool) -> Any:
    from keras.src.saving import saving_lib

    # Not compiled: its loss and metrics may be the caller's own, and are not asked for.
    return saving_lib._load_model_from_fileobj(
        io.BytesIO(archive), custom_objects=objects, compile=False, safe_mode=not trusted
    )


def _steady(file: io.BytesIO) -> bytes:
    """The same archive without what differs from save to save."""
    found = io.BytesIO()
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(found, "w") as after:
        for name in sorted(before.namelist()):
            content = before.read(name)
            if name == "metadata.json":
                content = _json({**json.loads(content), "date_saved": ""})
            elif name == "config.json":
                content = _json(_numbered({**json.loads(content), "compile_config": None}, {}))
            elif name == _WEIGHTS:
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


# -- what Keras does not know -----------------------------------------------------------------------------------------


def _custom(keras: Any, model: Any, archive: bytes) -> dict[str, Any]:
    """The caller's own classes and functions in the model, by the names that its config has for them."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        config = json.loads(file.read("config.json"))
    named = [part.get(key) for part in _objects(config) for key in ("registered_name", "class_name", "config")]
    names = {name for name in named if isinstance(name, str)}
    known = {name: keras.saving.get_registered_object(name) for name in sorted(names)}
    found = {name: thing for name, thing in known.items() if thing is not None}
    for thing in _things(model):
        kind = thing if isinstance(thing, types.FunctionType) else type(thing)
        if (kind.__module__ or "").partition(".")[0] not in ("keras", "builtins"):
            both = (keras.saving.get_registered_name(kind), kind.__name__)
            found |= {name: kind for name in both if name in names}
    return found


def _things(model: Any) -> Iterator[Any]:
    """Layers, and what a layer was given: functions, initializers, and layers that it holds."""
    for layer in model._flatten_layers():
        yield layer
        for value in vars(layer).values():
            # Keras puts wrappers of a layer's own methods into it, which hold the layer.
            is_given = isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__")
            if is_given or _is_of_keras(value):
                yield value


def _is_of_keras(value: Any) -> bool:
    saveable = sys.modules["keras.src.saving.keras_saveable"].KerasSaveable
    return isinstance(value, saveable)


def _objects(config: Any) -> Iterator[dict[str, Any]]:
    """Every dict in a config, the outermost first."""
    if isinstance(config, dict):
        yield config
    for part in config.values() if isinstance(config, dict) else config if isinstance(config, list) else ():
        yield from _objects(part)
