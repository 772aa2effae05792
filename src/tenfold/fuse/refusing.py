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
"""Of all that lives and training changes, a reference to it, and its model's parameters."""
_spans: weakref.WeakKeyDictionary[Fit, dict[str | None, tuple[Any, Any]]] = weakref.WeakKeyDictionary()
"""The least and the largest label of all rows, by output."""


def check(fit: Fit, member: Member, built: Any, kind: str) -> None:
    """Raise `BadCall` with what is wrong with a model of this kind."""
    if kind == "keras":
        _check_owner(member, built.trainable_variables, "weights")
        _check_classes(fit, member, built)
    else:
        _check_owner(member, _trained(built[2]), "weights")
        _check_owner(member, _statistics(built[0]), "running statistics")


def check_optimizer(member: Member, model: Any) -> None:
    """Of a Keras model that is trained alone: in a group, each has what an optimizer remembers to itself."""
    _check_owner(member, [model.optimizer], "an optimizer")


# -- what two models have --------------------------------------------------------------------------------------------


def _check_owner(member: Member, changed: list[Any], what: str) -> None:
    """Models that share what training changes would do so in turns; one that is built again may have what it had."""
    for one in changed:
        known = _owners.get(id(one))
        if known is not None and known[0]() is one and not same_params(known[1], member.params):
            raise BadCall(
                f"build returned {what} that another model has, too, and training would change what both have: make "
                "all of a model inside of build, or copy it there, with copy.deepcopy(module) or "
                "keras.models.clone_model(model)"
            )
    for one in changed:
        _owners[id(one)] = weakref.ref(one, functools.partial(_forget, id(one))), member.params


def _forget(key: int, gone: Any) -> None:
    if _owners.get(key, (None,))[0] is gone:
        del _owners[key]


def _trained(optimizer: Any) -> list[Any]:
    groups = getattr(optimizer, "param_groups", ())
    return [weight for group in groups for weight in group["params"] if weight.requires_grad]


def _statistics(module: Any) -> list[Any]:
    """What norms of PyTorch find out about their batches, frozen or not, where they are in training mode."""
    layers = list(module.modules()) if hasattr(module, "modules") else []
    modes = [layer.training for layer in layers]
    if layers:
        module.train()  # as before training: a layer may have a `train` of its own, which keeps it from that
    found = [getattr(layer, "running_mean", None) for layer in layers if layer.training and _moves(layer)]
    for layer, mode in zip(layers, modes, strict=True):
        layer.training = mode
    return [mean for mean in found if mean is not None]


def _moves(layer: Any) -> bool:
    return getattr(layer, "momentum", 0) != 0  # None is for the mean of all batches


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
