"""Which layers of a Sequential are in which stage of a pipeline. Looks at a module only, and changes nothing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from tenfold.errors import BadCall

Layers = list[tuple[str, Any]]
"""Their names in the module, and they themselves, in order."""


def staged(module: Any, stages: int) -> list[Layers]:
    """The layers of each stage, so that the largest has as little as possible. Refuses what cannot be divided so."""
    if not _plain(module):
        raise BadCall(
            f"stages={stages}: expected a torch.nn.Sequential, whose layers come one after the other, and the module "
            f"is of {type(module).__name__}; without stages=, any module is divided"
        )
    layers = list(_layers(module, ""))
    _check(layers, stages)
    found = _divided(layers, stages)
    _check_apart(found, stages)
    return found


def _plain(module: Any) -> bool:
    """Whether to call it is to call its layers one after the other, and nothing else."""
    if not isinstance(module, torch.nn.Sequential) or type(module).forward is not torch.nn.Sequential.forward:
        return False
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _layers(module: Any, path: str) -> Layers:
    found: Layers = []
    for name, layer in module._modules.items():  # children() would leave out a layer that comes again
        found += _layers(layer, f"{path}{name}.") if _plain(layer) else [(f"{path}{name}", layer)]
    return found


def _check(layers: Layers, stages: int) -> None:
    holding = [name for name, layer in layers if _size(layer)]
    if len(holding) < stages:
        listed = ", ".join(holding) or "none"
        raise BadCall(f"stages={stages}: the module has {len(holding)} layers with parameters ({listed})")
    for name, layer in layers:
        if any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in layer.modules()):
            raise BadCall(
                f"stages={stages}: layer {name} has batch norm, which looks at a whole batch, and a pipeline sees "
                "a few rows at a time; use another norm, or leave out stages="
            )


def _check_apart(found: list[Layers], stages: int) -> None:
    homes: dict[int, int] = {}
    for stage, layers in enumerate(found):
        for name, layer in layers:
            for parameter in layer.parameters():
                if homes.setdefault(id(parameter), stage) != stage:
                    raise BadCall(
                        f"stages={stages}: layer {name} shares a parameter with one of stage {homes[id(parameter)]}, "
                        f"and would be in stage {stage}; without stages=, it may"
                    )


def _divided(layers: Layers, stages: int) -> list[Layers]:
    """Runs of layers, whose largest is as small as can be; all but the first begin with one that has parameters."""
    begins = _begins([_size(layer) for _, layer in layers], stages)
    return [layers[start:stop] for start, stop in itertools.pairwise([0, *begins, len(layers)])]


def _begins(sizes: list[int], stages: int) -> tuple[int, ...]:
    """Where the second stage begins, the third, and so on."""
    never = (math.inf, ())
    # best[n]: of the first n layers in the stages so far, how large the largest is, and where stages begin
    best: list[tuple[float, tuple[int, ...]]]
    best = [(sum(sizes[:n]), ()) if any(sizes[:n]) else never for n in range(len(sizes) + 1)]
    for _ in range(stages - 1):
        best = [
            min(((max(best[m][0], sum(sizes[m:n])), (*best[m][1], m)) for m in range(n) if sizes[m]), default=never)
            for n in range(len(sizes) + 1)
        ]
    return best[-1][1]


def _size(layer: Any) -> int:
    return sum(parameter.nbytes for parameter in layer.parameters())
