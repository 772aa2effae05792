"""Which modules of PyTorch can be trained by several workers. Told before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from tenfold.errors import BadCall
from tenfold.fuse.torch_plain import refuse_callbacks

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def check(fit: Fit, module: Any) -> None:
    """Refuse what nobody would look at, and weights that are not there."""
    refuse_callbacks(fit)
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        raise BadCall(
            f"build returned a {type(module).__name__} with lazy layers, whose weights have no shape yet; "
            "call it once on a few rows in build, before the optimizer is made"
        )


def learning(module: Any, loss: Any, optimizer: Any) -> Any:
    """All that the optimizer changes: the module, and its loss where that has parameters, too."""
    own = isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters())
    whole = torch.nn.ModuleList([module, loss]) if own else module
    known = set(map(id, whole.parameters()))
    if any(id(parameter) not in known for group in optimizer.param_groups for parameter in group["params"]):
        raise BadCall(
            "build returned an optimizer with parameters that are neither the module's nor the loss's, which other "
            "workers would not have; make them parameters of one of the two"
        )
    return whole


def check_dense(optimizer: Any) -> None:
    """Refuse an optimizer that takes no sums of workers."""
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise BadCall(
            "build returned SparseAdam, which takes sparse gradients only, and those that workers add up are dense; "
            "expected another optimizer, such as Adam with Embedding(sparse=False)"
        )
