"""In a worker: calls of PyTorch in another form than vmap gives them, for many small models at once.

All are the same sums: nothing but rounding differs, and `torch_trial` compares. Used by `torch_stack` for the steps of
models.

- An embedding: by vmap's rule the gradient of a padding is left out in the first model of a stack only, and a number
  that is too large for one model is a row of the next one's weights.
- A dense layer, as `(weight @ x.T).T`: the gradient of the weight then comes in the layout of the weight. vmap's own
  form gives it transposed, and the optimizer has to copy it; with few outputs its product takes six times as long.
- Cross entropy, of one row of places with as many classes: softmax over a dimension that is not the last is computed
  for many places at once, over the last it is computed place by place, and ten classes fill no vector. With both of
  these, a step of 64 dense models takes 0.7 of the time on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy, embedding, linear
from torch.overrides import TorchFunctionMode

NOWHERE = -(1 << 30)  # below the first row of any model's weights, and so an error


class Forms(TorchFunctionMode):  # type: ignore[misc]  # PyTorch says nothing of its types
    """While it is entered, these calls are taken in the other form."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func is linear and len(args) >= 2 and _is_of_rows(*args, **named):
            return _linear(*args, **named)
        if func is cross_entropy and len(args) >= 2 and args[0].ndim == 2 and args[1].ndim == 1:
            found = func(args[0].mT[None], args[1][None], *args[2:], **named)
            return found[0] if found.ndim else found  # one for each row, where it is not reduced
        if func is embedding:
            return _embedding(*args, **named)
        return func(*args, **named)


def _is_of_rows(x: Any, weight: Any, bias: Any = None) -> bool:
    fits = bias is None or bias.shape == weight.shape[:1]
    return bool(x.ndim == weight.ndim == 2 and fits)


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    found = torch.mm(weight, x.mT)
    return (found if bias is None else found + bias[:, None]).mT


def _embedding(input: Any, weight: Any, padding_idx: int | None = None, *more: Any, **named: Any) -> Any:  # noqa: A002
    rows = weight.shape[0]
    found = embedding(torch.where((input < 0) | (input >= rows), NOWHERE, input), weight, None, *more, **named)
    if padding_idx is None:
        return found
    return torch.where((input == padding_idx % rows).unsqueeze(-1), found.detach(), found)
