"""Which weights of a module of PyTorch are cut for tensor parallelism, and along which of their axes.

Looks at a module only, and changes nothing; `sharded_tensor` does it. A weight is (outputs, inputs) of a Linear, and
(entries, width) of an Embedding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from tenfold.errors import BadCall
from tenfold.training.sharding import MODEL, SMALL, Layout, cut

Cuts = dict[str, int]
"""Name of a Linear or an Embedding in the module -> the axis of its weight that is cut."""
NUMBER_BY_NUMBER = (
    torch.nn.Identity,
    torch.nn.ReLU,
    torch.nn.GELU,
    torch.nn.SiLU,
    torch.nn.Tanh,
    torch.nn.Sigmoid,
    torch.nn.LeakyReLU,
    torch.nn.ELU,
)
"""What may stand between two layers whose outputs and inputs stay cut."""


def cuts(module: Any, parts: int, layout: Layout) -> Cuts:
    """As the layout says; of the others, what is large. Refuses a module of which nothing can be cut."""
    if parts == 1:
        raise BadCall("layout=: the model has one part in this mesh, so that no weight is cut")
    layers = dict(_layers(module))
    given = _given(layers, parts, layout)
    found = {**_chosen(module, layers, parts), **given}
    wanted = {name: axis for name, axis in found.items() if axis is not None}
    if not wanted:
        raise BadCall(
            f"mesh=, layout=: no weight is cut in {parts}: that is done to a Linear or an Embedding with {SMALL} "
            f"numbers or more and an axis that {parts} divides, and the module has {_listed(layers)}; without mesh= "
            "and layout=, any module is divided"
        )
    return wanted


def pairs(module: Any, cut_along: Cuts) -> list[tuple[str, str]]:
    """Layers of which the second takes what the first gives as it is cut, so that it need not be gathered between."""
    return [
        (first, second)
        for first, second in _neighbours(module, dict(_layers(module)))
        if cut_along.get(first) == 0 and cut_along.get(second) == 1
    ]


def _layers(module: Any) -> Iterator[tuple[str, Any]]:
    """What can be cut: neither subclasses, whose weights others may use, nor weights that have several places."""
    places: dict[int, int] = {}
    for _, parameter in module.named_parameters(remove_duplicate=False):
        places[id(parameter)] = places.get(id(parameter), 0) + 1
    for name, layer in module.named_modules():
        weight = layer._parameters.get("weight")
        if type(layer) in (torch.nn.Linear, torch.nn.Embedding) and weight is not None and places[id(weight)] == 1:
            if isinstance(layer, torch.nn.Embedding) and (layer.max_norm is not None or layer.sparse):
                continue
            yield name, layer


def _chosen(module: Any, layers: dict[str, Any], parts: int) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for first, second in _neighbours(module, layers):
        large = all(layers[name].weight.numel() >= SMALL for name in (first, second))
        if large and layers[first].out_features % parts == 0 and first not in found:
            found |= {first: 0, second: 1}
    for name, layer in layers.items():
        if name not in found:
            found[name] = _along(layer, parts)
    return found


def _along(layer: Any, parts: int) -> int | None:
    """Of an Embedding its width, if possible: then no part has to ask which entries are its own."""
    shape = tuple(layer.weight.shape)
    if isinstance(layer, torch.nn.Embedding):
        if shape[1] % parts == 0 and layer.weight.numel() >= SMALL:
            return 1
        if layer.padding_idx is not None:
            return None
    axes = cut(shape, parts)
    return axes.index(MODEL) if MODEL in axes else None


def _neighbours(module: Any, layers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Linear layers that follow each other in a Sequential."""
    for name, chain in module.named_modules():
        if type(chain) is not torch.nn.Sequential:
            continue
        last = None
        for part, layer in chain.named_children():
            path = f"{name}.{part}" if name else part
            if type(layer) is torch.nn.Linear and path in layers:
                if last is not None:
                    yield last, path
                last = path
            elif type(layer) not in NUMBER_BY_NUMBER:
                last = None


# -- what the caller says ---------------------------------------------------------------------------------------------


def _given(layers: dict[str, Any], parts: int, layout: Layout) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for pattern, axes in layout.items():
        matching = [name for name in layers if re.search(pattern, _weight(name))]
        if not matching:
            raise BadCall(f"layout: {pattern!r} is in the name of no weight that can be cut: {_listed(layers)}")
        for name in matching:
            if name not in found:
                found[name] = _axis(_weight(name), layers[name], tuple(axes), parts)
    return found


def _axis(name: str, layer: Any, axes: tuple[str | None, ...], parts: int) -> int | None:
    """Which axis the caller wants cut."""
    if axes not in ((None, None), (MODEL, None), (None, MODEL)):
        raise BadCall(
            f"layout: {axes!r} for {name}: expected (None, None), ({MODEL!r}, None) or (None, {MODEL!r}); with "
            "PyTorch, what is cut along the rows of the mesh is not chosen"
        )
    axis = axes.index(MODEL) if MODEL in axes else None
    shape = tuple(layer.weight.shape)
    if axis is not None and shape[axis] % parts:
        raise BadCall(f"layout: {name} has the shape {shape}, and {parts} does not divide {shape[axis]}")
    if axis == 0 and isinstance(layer, torch.nn.Embedding) and layer.padding_idx is not None:
        raise BadCall(f"layout: {name} has a padding_idx, so it can be cut by ({None!r}, {MODEL!r}) only")
    return axis


def _weight(name: str) -> str:
    return f"{name}.weight" if name else "weight"


def _listed(layers: dict[str, Any]) -> str:
    """Names and shapes, in words."""
    return ", ".join(f"{_weight(name)} {tuple(layer.weight.shape)}" for name, layer in layers.items()) or "none"
