"""PyTorch modules: pickled with their weights beside the pickle, so that the workers of a machine share them.

A module runs on the GPU that its task holds, else on the processor. No GPU has been at hand to try the former.
"""

from __future__ import annotations

import inspect
import io
import warnings
from typing import Any

import numpy

from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel
from tenfold.work.here import here


class TorchModel(Model):
    """Holds a parcel of the module."""

    modules = ("torch",)
    one_form = True

    def load(self) -> Predict:
        return _Running(parcel.unpack(self.content), self.output)

    def describe(self) -> str:
        return "a PyTorch module"


def of_live(module: Any, output: str | None) -> TorchModel:
    if type(module).__module__.startswith("torch.jit"):
        made = TorchModel(packed(_Scripted(module), "a PyTorch module"), output)
        return made.known_by(code=str(module.inlined_graph), weights=module.state_dict())
    kinds = {f"class {kind.__qualname__}": kind for kind in {type(part): None for part in module.modules()}}
    made = TorchModel(packed(module, "a PyTorch module"), output)
    # The whole of it too, for what its parts were made with: neither `repr` nor weights have to show that.
    return made.known_by(model=repr(module), weights=module.state_dict(), module=module, **kinds)


class _Scripted:
    """A module of TorchScript, which cannot be pickled: it travels in PyTorch's format, and arrives as the module."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __reduce__(self) -> Any:
        import torch

        room = io.BytesIO()
        torch.jit.save(self._module, room)
        return _scripted, (room.getvalue(),)


def _scripted(content: bytes) -> Any:
    import torch

    return torch.jit.load(io.BytesIO(content))


def allow_read_only() -> None:
    """PyTorch says once in a process that rows of a read-only file can be written to; nobody does here."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(numpy.frombuffer(b"\0", numpy.uint8))


class _Running:
    """A module that is not trained any more: without gradients, and in eval mode."""

    fixed = False
    by_name: bool | None = None

    def __init__(self, module: Any, output: str | None) -> None:
        import torch

        self._device = torch.device(here().device)
        self._module = module.eval().to(self._device)
        self._output = output
        floats = [p.dtype for p in (*module.parameters(), *module.buffers()) if p.is_floating_point()]
        self._floats = floats[0] if floats else None
        allow_read_only()

    def __call__(self, rows: Rows) -> Outputs:
        import torch

        with torch.inference_mode():
            given = nesting.each(self._tensor, rows)
            outputs = self._called(given)
            return nesting.settled(nesting.chosen(outputs, self._output), _array)

    def _called(self, given: Any) -> Any:
        """Several inputs are its arguments, a dict of them its named ones, as in a `Fit`; one dict, if it has none."""
        if isinstance(given, tuple):
            return self._module(*given)
        if not isinstance(given, dict):
            return self._module(given)
        try:
            inspect.signature(self._module.forward).bind(**given)
        except TypeError:
            return self._module(given)
        return self._module(**given)

    def _tensor(self, array: Any) -> Any:
        """Without a copy where it stays on the processor; floats in the precision of the module's weights."""
        import torch

        array = numpy.asarray(array)
        if any(stride < 0 for stride in array.strides):
            array = numpy.ascontiguousarray(array)
        tensor = torch.from_numpy(array)
        floats = self._floats if tensor.is_floating_point() else None
        return tensor.to(device=self._device, dtype=floats)


def _array(tensor: Any) -> numpy.ndarray:
    import torch

    if not isinstance(tensor, torch.Tensor):
        return numpy.asarray(tensor)
    found: numpy.ndarray = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy()
    return found
