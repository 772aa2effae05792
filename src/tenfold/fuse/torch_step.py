"""In a worker: what training one PyTorch model and training many of them share.

Data as tensors, rows of it as batches, what a batch is scored by, random numbers that belong to one model. Used by
`torch_plain`, one model at a time, and by `torch`, where batches are scored under `vmap`: an `Objective` may not look
at the value of a tensor.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.reading import Held
from tenfold.work.run import Declined
from tenfold.work.seeds import number

TEST_ROWS = 256  # in a batch of scoring, where the size of batches makes no difference to the scores
PROBABILITIES = ("BCELoss", "binary_cross_entropy")
"""Losses whose outputs are probabilities, where a class begins at 0.5; of other single outputs, logits, at 0."""

Data = Any
"""(x, y, weight): trees of tensors, with None for what is not there."""


# -- data -------------------------------------------------------------------------------------------------------------


class Blocks:
    """Blocks of data as tensors, where and as the model wants them."""

    def __init__(self, module: Any) -> None:
        floats = [parameter for parameter in module.parameters() if parameter.is_floating_point()]
        self.device = floats[0].device if floats else torch.device("cpu")
        self._floats = floats[0].dtype if floats else torch.float32
        self.tensors = Held(self._tensors)
        self.check: Callable[[Columns], None] | None = None
        """Told each block, before it is used."""

    def _tensors(self, block: Columns) -> Data:
        if self.check is not None:
            self.check(block)
        return tuple(
            mapped(functools.partial(self._tensor, whole=whole), tree)
            for whole, tree in ((False, block.x), (True, block.y), (False, block.weight))
        )

    def rows(self, order: numpy.ndarray) -> Any:
        """Row numbers, to take batches with."""
        return torch.from_numpy(numpy.ascontiguousarray(order)).to(self.device)

    def _tensor(self, array: numpy.ndarray | None, *, whole: bool) -> Any:
        """Floats become what the model's are, mostly float32; integers int64, except bytes that go into a model."""
        if array is None:
            return None
        kind, wanted = array.dtype.kind, array.dtype.newbyteorder("=")
        if whole or (kind in "iu" and wanted != numpy.uint8):
            wanted = numpy.dtype(numpy.int64) if kind in "biu" else wanted
        with warnings.catch_warnings():
            # Read-only memory is as good as any: batches are copies, and nobody writes to the block itself.
            warnings.filterwarnings("ignore", message=".*not writable.*", category=UserWarning)
            tensor = torch.from_numpy(numpy.ascontiguousarray(array, wanted))
        return tensor.to(self.device, self._floats if kind == "f" else tensor.dtype)


def batch(data: Data, places: Any) -> Data:
    """These rows: of the shape of `places`, and then that of a row. Always a copy, which a model may write to."""
    if places.ndim == 1:
        return _each(lambda tensor: tensor.index_select(0, places), data)
    flat, shape = places.reshape(-1), places.shape
    return _each(lambda tensor: tensor.index_select(0, flat).view(*shape, *tensor.shape[1:]), data)


def part(data: Data, start: int, stop: int) -> Data:
    """Rows that follow each other, as a copy."""
    return _each(lambda tensor: tensor[start:stop].clone(), data)


def as_array(tensor: Any) -> numpy.ndarray:
    """A copy; what NumPy has no type for as float32."""
    plain = tensor.detach().cpu()
    found: numpy.ndarray = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return found.copy()


def in_place(vector: Any) -> Any:
    """A tensor as it is, an array as one with the same memory, whatever PyTorch's default device is."""
    return torch.from_numpy(vector) if isinstance(vector, numpy.ndarray) else vector


def length(data: Data, axis: int = 0) -> int:
    """How many rows."""
    x = data[0]
    while not isinstance(x, torch.Tensor):
        x = next(iter(x.values() if isinstance(x, dict) else x))
    return int(x.shape[axis])


def _each(function: Callable[[Any], Any], data: Data) -> Data:
    return mapped(lambda tensor: None if tensor is None else function(tensor), data)


def arguments(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a module is called: several inputs are its arguments, a dict of them its named ones."""
    if isinstance(x, dict):
        return (), x
    return (x, {}) if isinstance(x, tuple) else ((x,), {})


def computing(precision: str | None, device: Any) -> Any:
    """A context in which operations that bear it are computed in another type; weights and gradients keep theirs."""
    if precision is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, getattr(torch, precision))


# -- loss and metrics -------------------------------------------------------------------------------------------------


class Objective:
    """A model's loss, and what else is told of a batch."""

    def __init__(self, loss: Any, metrics: Sequence[Any]) -> None:
        self._loss = loss
        self._by_row = _unreduced(loss)
        threshold = 0.5 if _name(loss) in PROBABILITIES else 0.0
        self._metrics = [_metric(metric, threshold) for metric in metrics]
        self.names = ("loss", *(metric if isinstance(metric, str) else _name(metric) for metric in metrics))
        # PyTorch's own means are the same for batches of any size; of other code nobody knows.
        kind = loss if inspect.isfunction(loss) else type(loss)
        own = str(kind.__module__).startswith("torch.") and getattr(loss, "reduction", "mean") == "mean"
        self.averages = own and all(metric == "accuracy" for metric in metrics)

    def test_rows(self, batch_size: int) -> int:
        """How many rows are scored at once."""
        return max(TEST_ROWS, batch_size) if self.averages else batch_size

    def check(self, data: Columns | None) -> None:
        """Refuse weights that this loss cannot take."""
        if data is not None and data.weight is not None and self._by_row is None:
            raise BadCall(
                f"the data has a sample_weight, and the loss {_name(self._loss)} has no `reduction`, which would be "
                'set to "none" to weigh each row; use a loss of torch.nn, or a function with a parameter `reduction`'
            )

    def loss(self, outputs: Any, y: Any, weight: Any) -> Any:
        """Of a batch: a number, the mean over all rows of loss times weight where they are weighed."""
        if weight is None:
            found = self._loss(outputs, y)
        else:
            assert self._by_row is not None
            by_row = self._by_row(outputs, y)
            found = ((by_row.flatten(1).mean(1) if by_row.ndim > 1 else by_row) * weight).mean()
        if found.ndim and found.numel() != 1:
            raise BadCall(f"the loss {_name(self._loss)} returned the shape {tuple(found.shape)}, expected one number")
        return found.reshape(()) if found.ndim else found

    def scores(self, outputs: Any, y: Any) -> list[Any]:
        """The metrics of a batch; rows count alike, whatever they weigh."""
        if not self._metrics:
            return []
        seen = mapped(lambda tensor: tensor.detach() if isinstance(tensor, torch.Tensor) else tensor, outputs)
        with torch.no_grad():
            return [torch.as_tensor(metric(seen, y)).detach().reshape(()) for metric in self._metrics]


def accuracy(outputs: Any, targets: Any, threshold: float = 0.0) -> Any:
    """The share of rows whose class is right.

    Classes are dimension 1 of the outputs, as losses of PyTorch have it; targets are their numbers, or one-hot. A
    single output says class 1 above the threshold.
    """
    if not isinstance(outputs, torch.Tensor) or not isinstance(targets, torch.Tensor):
        raise BadCall('metrics=["accuracy"]: the model has several outputs; give a function of (outputs, targets)')
    if outputs.ndim > 1 and outputs.shape[1] > 1:
        chosen = outputs.argmax(1)
        expected = targets.argmax(1) if targets.shape == outputs.shape else targets
    else:
        chosen, expected = (outputs > threshold).long(), targets
    return (chosen.reshape(-1) == expected.reshape(-1)).float().mean()


def _metric(metric: Any, threshold: float) -> Callable[[Any, Any], Any]:
    if metric == "accuracy":
        return functools.partial(accuracy, threshold=threshold)
    if not callable(metric):
        raise BadCall(f'metrics: found {metric!r}; for PyTorch expected "accuracy" or functions of (outputs, targets)')
    return metric  # type: ignore[no-any-return]


def _unreduced(loss: Any) -> Callable[[Any, Any], Any] | None:
    """The same loss, a number for each row; None where it has no such form."""
    if hasattr(loss, "reduction"):
        by_row: Callable[[Any, Any], Any] = copy.copy(loss)
        by_row.reduction = "none"  # type: ignore[attr-defined]
        return by_row
    try:
        takes = "reduction" in inspect.signature(loss).parameters
    except (TypeError, ValueError):
        takes = False
    return functools.partial(loss, reduction="none") if takes else None


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


@contextlib.contextmanager
def declining() -> Iterator[None]:
    """A step that fails here fails alone, too, and tells it there in full."""
    try:
        yield
    except (Declined, BadCall):
        raise
    except Exception as error:
        raise Declined(f"a step cannot be taken: {type(error).__name__}: {line(error)}") from error


def line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


# -- random numbers ---------------------------------------------------------------------------------------------------


class Randomness:
    """The process's random numbers as one model finds them: from where it left them, whatever its neighbours drew.

    Those of now, when it is made; in a `with` block they are the process's, and where the block ends they are kept.
    """

    def __init__(self) -> None:
        self.__exit__()

    def __enter__(self) -> None:
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        numpy.random.set_state(self._numpy)
        random.setstate(self._python)

    def __exit__(self, *_: object) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._numpy: Any = numpy.random.get_state(legacy=True)
        self._python = random.getstate()

    def divert(self, index: int) -> None:
        """Other numbers than these from now on, told apart by a number: for copies of one model in several workers."""
        with self:
            own = number(int(torch.randint(2**32, ())), index)
            torch.manual_seed(own)
            numpy.random.seed(own)
            random.seed(own)

    def drawn(self, since: Randomness) -> str | None:
        """Whose numbers were drawn since, in words; None for nobody's."""
        cuda = zip(self._cuda, since._cuda, strict=False)
        if not torch.equal(self._torch, since._torch) or not all(torch.equal(one, other) for one, other in cuda):
            return "PyTorch's global random numbers"
        if repr(self._numpy[2:]) != repr(since._numpy[2:]) or not numpy.array_equal(self._numpy[1], since._numpy[1]):
            return "NumPy's global random numbers"
        return "Python's global random numbers" if self._python != since._python else None
