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
    if not model.built:
        sample = problem.sample
        model(sample.astype(numpy.float32) if sample.dtype.kind == "f" else sample)
    units = _units(model)
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
    meaning: Outputs = "logits" if "from_logits" in names else "probabilities"
    if any("sparse" in name for name in names):
        return Form("numbers", meaning, problem.classes)
    if problem.classes == 2 and names & {"binary_crossentropy", "binary_focal_crossentropy"}:
        return Form("column", meaning, 1)
    if names & {"categorical_crossentropy", "categorical_focal_crossentropy"}:
        return Form("one-hot", meaning, problem.classes)
    return Form("numbers", meaning, problem.classes)


def _units(model: Any) -> int:
    try:
        shape = model.output_shape
    except (AttributeError, ValueError):  # a class of the user's, which says nothing about shapes
        shape = (None, *model.compute_output_shape(model._build_shapes_dict["input_shape"])[1:])
    if isinstance(shape, dict | list) or not isinstance(shape, tuple) or any(isinstance(one, tuple) for one in shape):
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
