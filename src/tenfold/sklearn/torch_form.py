"""How a PyTorch module talks about classes: told by its loss and its outputs. Runs where models are built."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns
from tenfold.sklearn.forms import Form, Outputs, Problem, inputs

_MEANINGS: dict[str, Outputs] = {
    "BCELoss": "probabilities",
    "binary_cross_entropy": "probabilities",
    "BCEWithLogitsLoss": "odds",
    "binary_cross_entropy_with_logits": "odds",
    "NLLLoss": "log probabilities",
    "nll_loss": "log probabilities",
    "MultiMarginLoss": "margins",
    "multi_margin_loss": "margins",
    "MSELoss": "probabilities",
    "mse_loss": "probabilities",
}
"""Losses whose outputs are not logits of classes that exclude one another, which those of CrossEntropyLoss are."""
_ONE_HOT = tuple(name for name, meaning in _MEANINGS.items() if meaning in ("probabilities", "odds"))
"""Losses that compare outputs and targets of the same shape."""


def form_of(built: Any, problem: Problem) -> Form:
    """The form of (module, loss, optimizer). Shapes are told by two rows that go through a copy of the module."""
    from tenfold.fuse.torch_plain import unpacked

    if not isinstance(built, tuple) or len(built) not in (3, 4):
        raise BadCall(
            f"build returned {type(built).__name__}, expected (module, loss, optimizer) or a scheduler besides"
        )
    module, loss, *_ = unpacked(built)
    keeps = _looks_up(module)
    shape = _shape(module, inputs(problem.sample, Form("numbers", "logits", 0, keeps), floats=True))
    units = shape[-1] if len(shape) > 1 else 1
    single = "column" if len(shape) > 1 else "flat"
    if problem.classes is None:
        return Form(single, "values", units, keeps)  # type: ignore[arg-type]
    name, meaning = _said(loss, module)
    if units == 1:
        return Form(single, meaning, 1, keeps)  # type: ignore[arg-type]
    return Form("one-hot" if name in _ONE_HOT else "numbers", meaning, units, keeps)


def _said(loss: Any, module: Any) -> tuple[str | None, Outputs]:
    """The loss of PyTorch's that it is, or comes of; and what it takes. One of the user's takes what comes out last."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    names = [loss.__name__] if hasattr(loss, "__name__") else [kind.__name__ for kind in type(loss).__mro__]
    known = next((name for name in names if name in _MEANINGS), None)
    if known is not None:
        return known, _MEANINGS[known]
    kinds = [type(inner).__name__ for inner in module.modules()]
    last = next((kind for kind in reversed(kinds) if kind not in ("Flatten", "Identity")), None)
    is_own = (getattr(loss, "__module__", None) or "").partition(".")[0] != "torch"
    return None, "probabilities" if is_own and last in ("Sigmoid", "Softmax") else "logits"


def guess(words: set[str], problem: Problem) -> Form:
    """From what stands in the code of `build`."""
    keeps = bool(words & {"Embedding", "EmbeddingBag"})
    if problem.classes is None:
        return Form("column", "values", problem.columns, keeps)
    named = next((name for name in _MEANINGS if name in words), None)
    meaning = _MEANINGS[named] if named is not None else "logits"
    if named in _ONE_HOT:
        return Form("column", meaning, 1, keeps)
    return Form("numbers", meaning, problem.classes, keeps)


def _looks_up(module: Any) -> bool:
    import torch

    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return any(isinstance(inner, kinds) for inner in module.modules())


def _shape(module: Any, sample: numpy.ndarray) -> tuple[int, ...]:
    """Of what comes out; the module itself, its buffers and the random numbers stay as they were."""
    import torch

    from tenfold.fuse.torch_step import Blocks, Randomness

    before = Randomness()
    with torch.no_grad():
        outputs = copy.deepcopy(module).eval()(Blocks(module).tensors(Columns(sample, None, None))[0])
    with before:  # they are the process's again
        pass
    if not isinstance(outputs, torch.Tensor):
        raise BadCall(f"the module returned {type(outputs).__name__}; scikit-learn's estimators have one output")
    return tuple(outputs.shape)
