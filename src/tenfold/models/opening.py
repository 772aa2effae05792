"""Which kind of model a caller gave. Nothing is imported for that: the value's classes say where they come from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tenfold.errors import BadCall
from tenfold.models import function, jax, keras, sklearn, torch
from tenfold.models.model import Model
from tenfold.work.outcome import shorten

ACCEPTED = (
    "a Keras model, the name of a .keras file, a PyTorch module, a fitted scikit-learn estimator, a function of rows "
    "(jitted by JAX or not), or what tenfold has trained"
)
_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin")
_OLD = (".h5", ".hdf5", ".weights.h5", ".pb")


def model(value: Any, *, output: str | None = None) -> Model:
    """`value` as something that workers predict with.

    `output` of an estimator is one of its methods; of other models the name of one of several outputs.
    """
    if output is not None and not isinstance(output, str):
        raise BadCall(f"output={output!r}: expected a name")
    if isinstance(value, Model):
        if output not in (None, value.output):
            raise BadCall(f"output={output!r}: the model was opened with output={value.output!r}; open it anew")
        return value
    if isinstance(value, str | os.PathLike):
        return _of_file(Path(value), output)
    return _of_live(_trained(value), output)


def _of_live(value: Any, output: str | None) -> Model:
    if _is_a(value, "keras", "Model"):  # on PyTorch, it is a module as well
        return keras.of_live(value, output)
    if _is_a(value, "torch", "Module"):
        return torch.of_live(value, output)
    if jax.is_jax(value):
        return jax.of_live(value, output)
    if sklearn.is_estimator(value):
        return sklearn.of_live(value, output)
    if callable(value) and not isinstance(value, type):
        return function.of_live(value, output)
    what = "a class, not a model made from it" if isinstance(value, type) else f"{type(value).__name__} is no model"
    if isinstance(value, list | tuple):
        what += " (tenfold.evaluate takes several in a dict, by name)"
    raise BadCall(f"model={shorten(value)}: {what}; expected {ACCEPTED}")


def _is_a(value: Any, package: str, name: str) -> bool:
    return any(k.__name__ == name and k.__module__.partition(".")[0] == package for k in type(value).__mro__)


def _trained(value: Any) -> Any:
    """The model in a result of tenfold: built by `model()`, kept as `model`, or live in one of its estimators."""
    if not type(value).__module__.startswith("tenfold.") or sklearn.is_estimator(value):
        return value
    found = getattr(value, "model", None)
    if found is None:
        found = getattr(getattr(value, "live", None), "model", None)
    if found is None:
        return value
    return (
        found()
        if callable(found) and not _is_a(found, "keras", "Model") and not _is_a(found, "torch", "Module")
        else found
    )


def _of_file(path: Path, output: str | None) -> Model:
    name = path.name.lower()
    if name.endswith(".keras"):
        return keras.of_file(path, output)
    reason = "expected a name that ends with .keras"
    if name.endswith(_PICKLES):
        reason = "a pickle runs whatever code is in it, so none is opened; load it yourself, and give the model itself"
    elif name.endswith(_OLD):
        reason = "not in the format of Keras 3; load it, and save it with model.save('name.keras'), or give the model"
    raise BadCall(f"model={str(path)!r}: {reason}")
