"""In a worker: what is refused of a model that `build` has returned, because it would be trained, and be wrong.

Called with each model that is trained, together with others or alone. It must never change one.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.building import Member, same_params
from tenfold.fuse.columns import Tree

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

_owners: dict[int, tuple[Any, Mapping[str, Any]]] = {}
"""Of each trained weight that lives, a reference to it, and its model's parameters."""
_spans: weakref.WeakKeyDictionary[Fit, dict[str | None, tuple[Any, Any]]] = weakref.WeakKeyDictionary()
"""The least and the largest label of all rows, by output."""


def check(fit: Fit, member: Member, built: Any, kind: str) -> None:
    """Raise `BadCall` with what is wrong with a model of this kind."""
    _check_owner(member, built.trainable_variables if kind == "keras" else _trained(built[2]))
    if kind == "keras":
        _check_classes(fit, member, built)


# -- weights of two models --------------------------------------------------------------------------------------------


def _check_owner(member: Member, weights: list[Any]) -> None:
    """Models that share what is trained would train it in turns; one that is built again may have what it had."""
    for weight in weights:
        known = _owners.get(id(weight))
        if known is not None and known[0]() is weight and not same_params(known[1], member.params):
            raise BadCall(
                "build returned weights that another model has, too, and both would train them: make layers inside of "
                "build, or copy them there, with copy.deepcopy(module) or keras.models.clone_model(model)"
            )
    for weight in weights:
        _owners[id(weight)] = weakref.ref(weight, functools.partial(_forget, id(weight))), member.params


def _forget(key: int, gone: Any) -> None:
    if _owners.get(key, (None,))[0] is gone:
        del _owners[key]


def _trained(optimizer: Any) -> list[Any]:
    groups = getattr(optimizer, "param_groups", ())
    return [weight for group in groups for weight in group["params"] if weight.requires_grad]


# -- classes that a model does not have -------------------------------------------------------------------------------


def _check_classes(fit: Fit, member: Member, model: Any) -> None:
    """Keras gives labels without an output the loss 0, on JAX. Weights and masks may leave such labels out."""
    for name, loss, y, output in _targets(model, fit.data.y):
        width = output.shape[-1]
        if width is None or y.size != len(y) or fit.data.weight is not None or not _counts_classes(loss):
            continue
        least, most = _span(fit, member, name, y)
        if least < 0 or most >= width:
            what = "y" if name is None else f"y[{name!r}]"
            raise BadCall(
                f"labels without an output: {what} is from {least:g} to {most:g}, and the model has {width} outputs "
                f"for it. Sparse categorical crossentropy takes classes from 0 to {width - 1}; number them by "
                "numpy.unique(labels, return_inverse=True)[1]"
            )


def _targets(model: Any, y: Tree) -> Iterator[tuple[str | None, Any, Any, Any]]:
    """Losses, labels and outputs that belong together; nothing where a model knows its outputs only from data."""
    outputs, names = getattr(model, "outputs", None) or [], getattr(model, "output_names", None) or []
    loss = model.loss
    if isinstance(y, numpy.ndarray) and not isinstance(loss, dict | list | tuple) and len(outputs) == 1:
        yield None, loss, y, outputs[0]
    elif isinstance(y, Mapping) and isinstance(loss, dict):
        for name, output in zip(names, outputs, strict=False):
            if name in loss and isinstance(y.get(name), numpy.ndarray):
                yield name, loss[name], y[name], output


def _counts_classes(loss: Any) -> bool:
    import keras

    try:
        found = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError:  # a name that Keras knows only for compile
        return False
    if isinstance(found, keras.losses.SparseCategoricalCrossentropy):
        return found.ignore_class is None and getattr(found, "axis", -1) == -1
    return found is keras.losses.sparse_categorical_crossentropy


def _span(fit: Fit, member: Member, name: str | None, y: numpy.ndarray) -> tuple[Any, Any]:
    """The least and the largest label of a model's rows."""
    if member.rows is not None:
        own = y[member.rows]
        return own.min(), own.max()
    known = _spans.setdefault(fit, {})
    if name not in known:
        known[name] = y.min(), y.max()
    return known[name]
