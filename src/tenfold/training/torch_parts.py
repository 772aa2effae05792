"""In a worker: its own part of a module and of an optimizer, as it is kept, and put back.

Any module will do: what is divided are DTensors, whoever has cut them, and what is not is kept as it is. A DTensor
cannot leave its process, because its group is of that process; so its local piece is kept, and how it was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from tenfold.fuse.torch_step import Randomness


@dataclass(frozen=True, slots=True)
class Piece:
    """One worker's piece of a tensor."""

    local: Any
    """The numbers."""
    placements: tuple[Any, ...]
    """How it is cut, along each axis of the mesh."""
    shape: tuple[int, ...]
    """Of the whole."""
    stride: tuple[int, ...]
    """Of the whole."""

    def within(self, mesh: Any) -> Any:
        """A DTensor again, in the group of now."""
        whole = {"shape": torch.Size(self.shape), "stride": self.stride}
        return DTensor.from_local(self.local.to(mesh.device_type), mesh, self.placements, run_check=False, **whole)


def taken(module: Any, optimizer: Any) -> tuple[Any, Any, Randomness]:
    """Copies in this machine's memory: tensors, what the optimizer remembers, and the process's random numbers."""
    return _each(_piece, _tensors(module)), _each(_piece, optimizer.state_dict()), Randomness()


def put(module: Any, optimizer: Any, state: tuple[Any, Any, Randomness]) -> None:
    """Go on from what was `taken` in the worker of the same rank."""
    tensors, remembered, randomness = state
    now = _tensors(module)
    others = {}
    for name, value in tensors.items():
        if isinstance(value, Piece | torch.Tensor):
            with torch.no_grad():
                local(now[name]).copy_(value.local if isinstance(value, Piece) else value)
        else:
            others[name] = value
    if others:  # what modules say of themselves by get_extra_state
        module.load_state_dict({**module.state_dict(), **others})
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state_of = {index: _each(_whole(parameters[index]), of) for index, of in remembered["state"].items()}
    optimizer.load_state_dict({**remembered, "state": state_of})
    with randomness:
        pass  # they are the process's now


def local(tensor: Any) -> Any:
    """What this worker holds of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _tensors(module: Any) -> dict[str, Any]:
    """Also buffers that a `state_dict` leaves out."""
    return {**dict(module.named_buffers()), **module.state_dict()}


def _piece(value: Any) -> Any:
    if isinstance(value, DTensor):
        own = value.to_local().detach().cpu().clone()  # a view would be kept with all that it is a view of
        return Piece(own, tuple(value.placements), tuple(value.shape), tuple(value.stride()))
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value


def _whole(parameter: Any) -> Callable[[Any], Any]:
    """Pieces of what is remembered of a parameter lie in the mesh of the parameter."""
    return lambda value: value.within(parameter.device_mesh) if isinstance(value, Piece) else value


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _each(function, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_each(function, one) for one in value]
    return function(value)
