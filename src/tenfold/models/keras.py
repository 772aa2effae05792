"""Keras models as the caller has them: a live one, or a `.keras` file, as the bytes of that format.

The bytes of a live model are the same whenever its layers and weights are: dates, addresses of objects and what its
optimizer remembers (two thirds of a model that Adam has trained) are left out. Classes and functions that are not of
Keras travel beside them. A file is sent as it is, and opened as Keras opens a file that it does not trust.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from tenfold.errors import BadCall
from tenfold.frameworks.jax import quick_compilations
from tenfold.frameworks.keras import archive
from tenfold.machine import installed
from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.work import parcel


class KerasModel(Model):
    """Holds a parcel: the bytes, the classes and functions to open them with, and whether they are trusted."""

    modules = ("keras", "tenfold.models.keras_tensorflow")
    one_form = True

    @property
    def changes_nothing(self) -> bool:
        return os.environ.get("KERAS_BACKEND") != "torch"  # whose layers may work in place

    def load(self) -> Predict:
        try:
            import keras
        except ImportError as error:
            raise installed.missing("Keras", "keras") from error
        content, objects, trusted = parcel.unpack(self.content)
        try:
            with quick_compilations():  # initial weights, which are not even kept
                # Not compiled: its loss and metrics may be the caller's own, and are not asked for.
                model = archive.opened(content, objects, compiled=False, trusted=trusted)
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
        content = path.read_bytes()
    except OSError as error:
        raise BadCall(f"model={str(path)!r}: cannot be read: {error}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            config = json.loads(file.read("config.json"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise BadCall(
            f"model={str(path)!r}: not a model that Keras 3 has saved: {type(error).__name__}: {error}. Expected a "
            "file that model.save('name.keras') wrote"
        ) from error
    if any(part.get("class_name") == "__lambda__" for part in archive.parts(config)):
        raise BadCall(
            f"model={str(path)!r}: has a Lambda layer, which is code inside a file; such files are not opened. Load it "
            "with keras.saving.load_model(path, safe_mode=False), where you trust it, and give the model itself"
        )
    return KerasModel(parcel.pack((content, {}, False)).to_bytes(), output)


def of_live(model: Any, output: str | None) -> KerasModel:
    """A model of this process."""
    if not model.built:
        raise BadCall(
            f"model={model.name!r}: a Keras model that has no weights yet; call it on some rows, or give it an Input"
        )
    names = output_names(model)
    if output is not None and names and output not in names:
        raise nesting.unknown(output, names)
    _refuse_unmade(model)
    try:
        content = archive.of(model, compiled=False)
    except Exception as error:
        raise BadCall(
            f"model={model.name!r}: Keras cannot save it, so it cannot be sent to a worker: "
            f"{type(error).__name__}: {error}"
        ) from error
    objects = archive.objects(model, content)
    made = KerasModel(packed((content, objects, True), "a Keras model"), output).known_by(model=content, **objects)
    return made.taking(_width(model))


def _refuse_unmade(model: Any) -> None:
    """BadCall for a class of the user's that Keras could not make again from what it keeps of it."""
    import keras

    usual = [kind.from_config.__func__ for kind in (keras.Model, keras.layers.Layer)]
    for part in {type(part): part for part in [model, *model._flatten_layers()]}.values():
        kind = type(part)
        if kind.__module__.partition(".")[0] == "keras" or getattr(kind.from_config, "__func__", None) not in usual:
            continue
        try:
            config = part.get_config()
            if "layers" not in config:  # else it is made again of its layers
                inspect.signature(kind.__init__).bind(part, **config)
        except TypeError as error:
            raise BadCall(
                f"model={model.name!r}: Keras could not make {kind.__name__} again in a worker: its __init__ "
                f"{error}. Have it take what Keras keeps of it: def __init__(self, ..., **kwargs): "
                "super().__init__(**kwargs)"
            ) from error
        except Exception:  # it keeps nothing of it: Keras says so when it is saved
            continue


def _width(model: Any) -> int | None:
    """Of rows of numbers, if it takes one array of them; None where it takes others, or does not say so."""
    inputs: Any = getattr(model, "inputs", None) or ()
    is_by_name = isinstance(getattr(model, "input", None), dict)
    one: Any = inputs[0].shape if len(inputs) == 1 and not is_by_name else ()
    return one[1] if len(one) == 2 else None


def output_names(model: Any) -> list[str]:
    """What the outputs are called; none of a model that only its code knows."""
    outputs = getattr(model, "outputs", None)
    if not outputs:
        return []
    if not hasattr(model, "output_names"):  # layers in a row
        return [str(model.layers[-1].name)]
    return [str(name) for name in (model.output if isinstance(model.output, dict) else model.output_names)]
