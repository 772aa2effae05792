"""How a Keras model talks about classes: told by its loss and its outputs. Runs where models are built."""

from __future__ import annotations

import functools
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
    meaning = _meaning(model, name)
    if units == 1:
        return Form("column", meaning, 1)
    return Form("numbers" if "sparse" in name else "one-hot", meaning, units)


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


def _loss(loss: Any) -> Any:
    """The one of a model with one output; a function of which some arguments are given is what it was."""
    if isinstance(loss, dict | list | tuple):
        values = list(loss.values()) if isinstance(loss, dict) else list(loss)
        loss = values[0] if values else None
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss


def _name(loss: Any) -> str:
    """As Keras writes it: "sparse_categorical_crossentropy"."""
    loss = _loss(loss)
    return _snake(loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _meaning(model: Any, name: str) -> Outputs:
    if "hinge" in name:
        return "margins"
    if not _takes_logits(model):
        return "probabilities"
    return "odds" if "binary" in name else "logits"


def _takes_logits(model: Any) -> bool:
    """A loss of Keras's says so. One of the user's does not: then a last layer that ends with no activation does."""
    loss = _loss(model.loss)
    settings = loss.get_config() if hasattr(loss, "get_config") else getattr(model.loss, "keywords", {})
    module = getattr(loss, "__module__", None) or ""
    if "from_logits" in settings or isinstance(loss, str) or module.partition(".")[0] == "keras":
        return bool(settings.get("from_logits", False))
    last = model.layers[-1] if model.layers else None
    return getattr(getattr(last, "activation", None), "__name__", None) == "linear"
