"""How a loss of PyTorch adds up over shares of a batch: as a mean over rows, or as their sum. Told before training.

Of PyTorch's own losses it is known. Others are asked: about a few rows, about some of these, and about the rest.
Some of PyTorch's divide by how many targets they do not leave out, or by those targets' weights: of them, shares add up
the sum and what it is to be divided by.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns, leaves
from tenfold.fuse.torch_step import Blocks, Data, Objective, Randomness, arguments, length, part

ROWS = 16  # that a loss is asked about: few, so that the two parts of them differ
NEAR = 1e-4  # of the loss; a root of a mean, or a mean over some of the rows, is further away
COUNTING = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")
"""Losses of PyTorch that leave out targets of one number, -100 if not told otherwise."""
INSTEAD = "tenfold.map, or one worker with accumulate=1, trains with it"


def says_sum(loss: Any, sample: Columns) -> bool:
    """Whether the loss says that it is a sum over rows; with weights, it is a mean of loss times weight."""
    return sample.weight is None and bool(_setting(loss, "reduction", "mean") == "sum")


def sums_rows(module: Any, loss: Any, sample: Columns, blocks: Blocks) -> bool:
    """Whether the loss is a sum over rows rather than a mean; refuses what is neither, now or when `blocks` are read.

    The module has all of its weights, and stays as it is.
    """
    if sample.weight is not None:
        return False
    if not _is_own(loss):
        return _asked(module, loss, sample)
    if not _counts(loss, sample):
        _refuse_broadcast(module, loss, sample)
    if _setting(loss, "reduction", "mean") == "mean":
        if _setting(loss, "weight", None) is not None:
            if not _counts(loss, sample):
                return _asked(module, loss, sample)
            raise BadCall(
                f"the loss {_name(loss)} has a weight for each class and divides by those of its rows, of which a "
                "worker has only some; use Fit(class_weight=...), or tenfold.map"
            )
        if _name(loss) in COUNTING:
            blocks.check = _Refusing(_name(loss), _setting(loss, "ignore_index", -100))
    return says_sum(loss, sample)


class Counted:
    """A loss as a sum, and what that is divided by: how many targets count, or their weights."""

    def __init__(self, loss: Any) -> None:
        self._weight = _setting(loss, "weight", None)
        self._ignored = _setting(loss, "ignore_index", -100)
        self.sum: Callable[[Any, Any], Any]
        """Of all targets."""
        if inspect.isroutine(_function(loss)):
            self.sum = functools.partial(loss, reduction="sum")
        else:
            self.sum = copy.copy(loss)
            self.sum.reduction = "sum"  # type: ignore[attr-defined]

    def by(self, y: Any) -> Any:
        """What the sum is divided by."""
        counts = y != self._ignored
        return counts.sum() if self._weight is None else (self._weight[y.where(counts, 0)] * counts).sum()


def counted(loss: Any, sample: Columns, data: Sequence[Columns | None]) -> Counted | None:
    """Of a loss that leaves out targets, or weighs them, in some of this data; None where it divides by rows."""
    if sample.weight is not None or not _is_own(loss) or not _counts(loss, sample):
        return None
    if _setting(loss, "reduction", "mean") != "mean":
        return None
    weighs = _setting(loss, "weight", None) is not None
    ignored = _setting(loss, "ignore_index", -100)
    leaves_out = any(one.streams or (one.y == ignored).any() for one in data if one is not None)
    return Counted(loss) if weighs or leaves_out else None


def _counts(loss: Any, sample: Columns) -> bool:
    """Whether it divides by targets rather than by rows: of one number each, not of probabilities."""
    return _name(loss) in COUNTING and isinstance(sample.y, numpy.ndarray) and sample.y.dtype.kind in "iub"


def _function(loss: Any) -> Any:
    """Of a partial, what it calls."""
    return getattr(loss, "func", loss)


def _name(loss: Any) -> str:
    function = _function(loss)
    return str(getattr(function, "__name__", type(function).__name__))


def _is_own(loss: Any) -> bool:
    function = _function(loss)
    kind = function if inspect.isroutine(function) else type(function)
    return str(kind.__module__).startswith("torch.")


def _setting(loss: Any, name: str, default: Any) -> Any:
    return getattr(loss, name, getattr(loss, "keywords", {}).get(name, default))


def _refuse_broadcast(module: Any, loss: Any, sample: Columns) -> None:
    """Where each output meets the targets of all rows, what comes out depends on how many rows there are."""
    data = Blocks(module).tensors(sample.take(slice(0, 2)))
    drawn = Randomness()
    ((outputs, y),) = _parts(module, data, ((0, length(data)),))
    with drawn:  # as if nothing had been drawn
        pass
    both = isinstance(outputs, torch.Tensor) and isinstance(y, torch.Tensor)
    if both and y.is_floating_point() and outputs.ndim != y.ndim:
        raise BadCall(
            f"the loss {_name(loss)} takes outputs of the shape {tuple(outputs.shape)} and targets of "
            f"{tuple(y.shape)} for 2 rows, so that each output meets the targets of all rows; expected the same shape: "
            "reshape y, or flatten what the module returns"
        )


class _Refusing:
    """Refuses targets that a loss leaves out."""

    def __init__(self, loss: str, ignored: int) -> None:
        self._loss = loss
        self._ignored = ignored

    def __call__(self, block: Columns) -> None:
        numbers = [array for array in leaves(block.y) if array is not None and array.dtype.kind in "iu"]
        if any((array == self._ignored).any() for array in numbers):
            raise BadCall(
                f"the loss {self._loss} leaves out targets of {self._ignored} (ignore_index) and divides by how many "
                "are left, and a worker knows only those of its rows; expected none of them, or a loss that divides "
                f"by all rows; {INSTEAD}"
            )


def _asked(module: Any, loss: Any, sample: Columns) -> bool:
    data = Blocks(module).tensors(sample.take(slice(0, ROWS)))
    count = length(data)
    cut = max(1, count // 3)
    if cut == count:
        return False
    drawn = Randomness()
    found = [_loss(loss, *some) for some in _parts(module, data, ((0, count), (0, cut), (cut, count)))]
    with drawn:  # as if nothing had been drawn
        pass
    whole, first, rest = (float(number) for number in found)
    near = max(NEAR, 8 * torch.finfo(found[0].dtype).eps) * (abs(whole) + abs(first) + abs(rest))
    mean = (first * cut + rest * (count - cut)) / count
    if not math.isfinite(near) or abs(whole - mean) <= near:
        return False
    if abs(whole - (first + rest)) <= near:
        return True
    raise BadCall(
        f"the loss {_name(loss)} is {whole:.6g} of {count} rows, {first:.6g} of the first {cut} of them and {rest:.6g} "
        f"of the others, and a worker has only some rows of a batch; expected a mean over rows, or a sum; {INSTEAD}"
    )


def _loss(loss: Any, outputs: Any, y: Any) -> Any:
    return Objective(loss, ()).loss(outputs, y, None).detach()


def _parts(module: Any, data: Data, cuts: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, Any]]:
    """Outputs and targets of some rows: cut, where outputs have rows, so that a module may draw numbers."""
    module.eval()
    outputs = _outputs(module, data[0])
    plain = isinstance(outputs, torch.Tensor) or type(outputs) in (tuple, list, dict)
    have_rows = plain and all(
        isinstance(leaf, torch.Tensor) and leaf.ndim and len(leaf) == length(data) for leaf in leaves(outputs)
    )
    for start, stop in cuts:
        x, y, _ = part(data, start, stop)
        yield part(outputs, start, stop) if have_rows else _outputs(module, x), y


def _outputs(module: Any, x: Any) -> Any:
    positional, named = arguments(x)
    with torch.no_grad():
        return module(*positional, **named)
