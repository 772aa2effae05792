"""How a Keras model talks about classes: told by its loss and its outputs. Runs where models are built."""

from __future__ import annotations

import re
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.sklearn.forms import Form, Outputs, Problem


def form_of(model: Any, problem: Problem) -> Form:
    """The form of a compiled model. One without an Input is told the shape of its data here."""
    if not hasattr(model, "compiled") or not model.compiled:
        raise BadCall("build must return a Keras model that is compiled; end it with model.compile(optimizer, loss)")
    units = _units(_shape(model, problem))
    if problem.classes is None:
        return Form("column", "values", units)
    name = _name(model.loss)
    if units == 1:
        return Form("column", _meaning(model.loss, name), 1)
    if "sparse" in name:
        return Form("numbers", _meaning(model.loss, name), units)
    return Form("one-hot", _meaning(model.loss, name), units)


def guess(words: set[str], problem: Problem) -> Form:
    """From what stands in the code of `build`."""
    if problem.classes is None:
        return Form("column", "values", problem.columns)
    names = {_snake(word) for word in words}
    logits = "from_logits" in names
    meaning: Outputs = "logits" if logits else "probabilities"
    if any("sparse" in name for name in names):
        return Form("numbers", meaning, problem.classes)
    if problem.classes == 2 and names & {"binary_crossentropy", "binary_focal_crossentropy"}:
        return Form("column", "odds" if logits else meaning, 1)
    if names & {"categorical_crossentropy", "categorical_focal_crossentropy"}:
        return Form("one-hot", meaning, problem.classes)
    return Form("numbers", meaning, problem.classes)


def _shape(model: Any, problem: Problem) -> Any:
    """Of its outputs: of a model that was built by layers, or of a class of the user's, what it gives for two rows."""
    try:
        if model.built:
            return model.output_shape
    except (AttributeError, ValueError):
        pass
    sample = problem.sample
    outputs = model(sample.astype(numpy.float32) if sample.dtype.kind == "f" else sample)
    return tuple(outputs.shape) if hasattr(outputs, "shape") else type(outputs).__name__


def _units(shape: Any) -> int:
    if not isinstance(shape, tuple) or not all(isinstance(size, int | None) for size in shape):
        raise BadCall(f"build returned a model with several outputs ({shape}); scikit-learn's estimators have one")
    return int(shape[-1]) if len(shape) > 1 else 1


def _name(loss: Any) -> str:
    """As Keras writes it: "sparse_categorical_crossentropy"."""
    if isinstance(loss, dict | list | tuple):
        values = list(loss.values()) if isinstance(loss, dict) else list(loss)
        loss = values[0] if values else None
    if isinstance(loss, str):
        return _snake(loss)
    return _snake(getattr(loss, "__name__", type(loss).__name__))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _meaning(loss: Any, name: str) -> Outputs:
    if "hinge" in name:
        return "margins"
    settings = loss.get_config() if hasattr(loss, "get_config") else {}
    if not settings.get("from_logits", False):
        return "probabilities"
    return "odds" if "binary" in name else "logits"
