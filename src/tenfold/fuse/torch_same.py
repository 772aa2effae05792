"""In a worker: the facts that PyTorch models have in common whose training steps are one program.

Everything that a module, its loss and its optimizer hold, but for the values of tensors and the optimizer's numbers.
Called by `torch`, for each model that was built, and by `torch_trial`, to see whether a step has changed any of it.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import types
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import torch

from tenfold.fuse.torch_step import as_array

OBSTACLE = "what keeps it from being fused"
PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout)
OWN = ("_parameters", "_buffers", "_modules", "_load_state_dict_pre_hooks")
"""Attributes that are told apart in other ways, or have no part in training."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def describe(built: Any, flags: tuple[str, ...] | None, obstacle: str | None) -> dict[str, Any]:
    """Everything that models of one program have in common."""
    module, loss, optimizer, schedule = built
    facts: dict[str, Any] = {}
    own = {id(tensor): name for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for name, layer in module.named_modules(remove_duplicate=False):
        facts |= _attributes(layer, f"layer {name}" if name else "the module", own)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        facts[f"the shape of {name}"] = tuple(tensor.shape)
        facts[f"the type of {name}"] = (tensor.dtype, tensor.device, type(tensor))
        facts[f"whether {name} is trained"] = tensor.requires_grad and id(tensor) in held
    saved = module.state_dict(keep_vars=True)
    facts["what the state_dict holds"] = tuple((key, own.get(id(value))) for key, value in saved.items())
    if isinstance(loss, torch.nn.Module):
        for name, layer in loss.named_modules():
            facts |= _attributes(layer, f"layer {name} of the loss" if name else "the loss", {})
    facts["the loss"] = _value(dict(loss.state_dict()) if isinstance(loss, torch.nn.Module) else loss, {})
    facts["the class of the optimizer"] = _kind(type(optimizer))
    facts["the switches of the optimizer"] = flags
    facts["whether there is a scheduler"] = schedule is not None
    facts[OBSTACLE] = obstacle or next(_obstacles(built, facts, held - own.keys()), None)
    return facts


def _attributes(layer: Any, name: str, own: dict[int, str]) -> dict[str, Any]:
    found: dict[str, Any] = {f"the class of {name}": _kind(type(layer))}
    for key, value in vars(layer).items():
        if key not in OWN:
            found[f"the attribute {key} of {name}"] = _value(value, own)
    return found


@dataclass(frozen=True, slots=True)
class _Weight:
    """Stands for a parameter or buffer that an attribute holds besides."""

    name: str
    """What the module calls it."""


def _value(value: Any, own: dict[int, str]) -> Any:
    """Something to compare and hash: equal only for what does the same."""
    if isinstance(value, PLAIN) and type(value) in PLAIN:
        return type(value), repr(value)  # 1, 1.0 and True are equal, and NaN is not: their texts tell
    if isinstance(value, weakref.ref):
        return _value(value(), own)
    if isinstance(value, torch.Tensor):
        if id(value) in own:
            return _Weight(own[id(value)])
        return type(value), value.dtype, tuple(value.shape), value.requires_grad, as_array(value).tobytes()
    if type(value) in (list, tuple, torch.Size):
        return type(value), *(_value(one, own) for one in value)
    if isinstance(value, dict):
        return type(value), *((_value(key, own), _value(one, own)) for key, one in value.items())
    if type(value) in (set, frozenset):
        return type(value), *sorted(repr(_value(one, own)) for one in value)
    try:
        return type(value), cloudpickle.dumps(value)
    except Exception:  # then it is like nothing but itself
        return type(value), id(value)


@dataclass(frozen=True, slots=True)
class _Made:
    """Stands for a class that is made anew for each model: in `build`, or by a parametrization of PyTorch."""

    name: str
    """What it is called."""
    parts: tuple[Any, ...]
    """Its bases and members; equal only for what does the same."""


PARAMETRIZED = "torch.nn.utils.parametrize"
"""Makes classes that compute weights, by layers that are the module's own, and so compared with the others."""
UNTOLD = ("__dict__", "__weakref__", "__doc__")


def _kind(kind: type, outer: tuple[Any, ...] = ()) -> Any:
    """A class, to compare; `outer` are the classes and functions that it is a part of."""
    if _is_lasting(kind):
        return kind
    if kind in outer:
        return "outer", outer.index(kind)
    members: list[Any] = sorted(vars(kind))
    if kind.__module__ != PARAMETRIZED:
        members = [(name, _member(one, (*outer, kind))) for name, one in vars(kind).items() if name not in UNTOLD]
    return _Made(kind.__name__, (*(_kind(base, outer) for base in kind.__bases__), *members))


def _is_lasting(kind: type) -> bool:
    """Whether it is found by its name, and so is one for all models."""
    if kind.__module__ == "__main__":  # of the caller's script, which is another one here
        return "<locals>" not in kind.__qualname__
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def _member(value: Any, outer: tuple[Any, ...]) -> Any:
    """What a class or function holds."""
    if isinstance(value, classmethod | staticmethod):
        return type(value), _member(value.__func__, outer)
    if isinstance(value, property):
        return property, *(_member(one, outer) for one in (value.fget, value.fset, value.fdel))
    if isinstance(value, type):
        return _kind(value, outer)
    if not isinstance(value, types.FunctionType):
        return _value(value, {})
    if value in outer:
        return "outer", outer.index(value)
    outer = (*outer, value)
    held = [*_closed_over(value), *(value.__defaults__ or ())]
    named = (value.__kwdefaults__ or {}).items()
    parts = (*(_member(one, outer) for one in held), *((name, _member(one, outer)) for name, one in named))
    return cloudpickle.dumps(value.__code__), value.__module__, parts


def _obstacles(built: Any, facts: dict[str, Any], strangers: set[int]) -> Iterator[str]:
    """Why a module cannot be fused, whatever its neighbours."""
    module, loss, *_ = built
    for name, value in facts.items():
        if name.startswith("the attribute ") and _has_weight(value):
            yield f"{name} ({_class_at(module, name)}) holds weights besides the parameters"
    for name, layer in (*module.named_modules(), *_named(loss)):
        if any(vars(layer)[key] for key in HOOKS):
            yield f"layer {name or type(layer).__name__} has hooks"
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            yield f"the parameter {name} has hooks"
        if parameter.dtype not in (torch.float16, torch.float32, torch.float64):
            yield f"the parameter {name} is of {parameter.dtype}"
    if strangers:
        yield "the optimizer holds parameters that are not the module's"
    if not any(value is True for name, value in facts.items() if name.startswith("whether ")):
        yield "no parameter is trained"
    if any(name is None for _, name in facts["what the state_dict holds"]):
        yield "its state_dict holds more than parameters and buffers"
    if any(isinstance(one, torch.nn.Module) and any(True for _ in one.parameters()) for one in (loss, *_reached(loss))):
        yield "the loss holds parameters"


def _has_weight(value: Any) -> bool:
    return isinstance(value, _Weight) or (isinstance(value, tuple) and any(map(_has_weight, value)))


def _named(loss: Any) -> list[tuple[str, Any]]:
    return list(loss.named_modules(prefix="loss")) if isinstance(loss, torch.nn.Module) else []


def _class_at(module: Any, name: str) -> str:
    layer = name.rpartition(" of layer ")[2]
    return type(module.get_submodule(layer) if " of layer " in name else module).__name__


def _reached(function: Any) -> list[Any]:
    """What a function holds: the object that it is a method of, and what it closes over."""
    found = [getattr(function, "__self__", None), getattr(function, "func", None), *getattr(function, "args", ())]
    return [*found, *_closed_over(function), *(getattr(function, "keywords", None) or {}).values()]


def _closed_over(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # it is empty: a name that is bound later
            yield cell.cell_contents


def told(value: Any) -> Any:
    """A fact as a plain value, for messages: classes by name, and what has no text by something that tells it apart."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, _Made):
        return f"{value.name} {zlib.crc32(repr(value.parts).encode()):08x}"
    if not isinstance(value, tuple):
        return value if isinstance(value, bool | str | None) else str(value)
    if not value or not isinstance(value[0], type):
        return [told(one) for one in value]
    kind, *rest = value
    if kind in PLAIN:
        with contextlib.suppress(ValueError, SyntaxError):  # NaN, and the types of PyTorch
            return ast.literal_eval(rest[0])
        return rest[0]
    if kind in (list, tuple, torch.Size):
        return [told(one) for one in rest]
    return f"{kind.__name__} {zlib.crc32(repr(rest).encode()):08x}"
