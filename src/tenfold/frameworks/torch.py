"""PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tenfold.frameworks import Framework
from tenfold.plan.seats import Seat


class Member(Framework):
    # The first optimizer imports torch._dynamo: 2 s in every process that does not inherit it.
    modules = ("torch", "torch._dynamo")
    distributions = ("torch",)
    extra = "torch"
    import_variables = ("TORCH", "PYTORCH_")

    def variables(self, seat: Seat) -> dict[str, str]:
        share = min((gpu.share for gpu in seat.gpus), default=1.0)
        if share >= 1:
            return {}
        given = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
        ours = f"per_process_memory_fraction:{share:.3f}"
        return {"PYTORCH_CUDA_ALLOC_CONF": f"{given},{ours}" if given else ours}

    def settle(self, seat: Seat) -> Callable[[], None] | None:
        import torch

        before = torch.get_num_threads()
        # Also where it is that number already: threadpoolctl may have set OpenMP's, and cannot reach PyTorch's own MKL.
        torch.set_num_threads(seat.threads)
        return lambda: torch.set_num_threads(before)

    def seed(self, seed: int) -> None:
        import torch

        # torch.manual_seed takes 144 us where CUDA is not in use: it formats a traceback for each later device.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized() or torch.cuda.device_count():
            torch.cuda.manual_seed_all(seed)

    def keep_random(self) -> Callable[[], None]:
        import torch

        before = torch.get_rng_state()
        return lambda: torch.set_rng_state(before)

    def started(self) -> bool:
        import torch

        return bool(torch.cuda.is_initialized())

    def reducers(self) -> dict[type, Callable[[Any], Any]]:
        import torch

        return {torch.Tensor: _reduce_tensor, torch.nn.Parameter: _reduce_parameter}


def _reduce_tensor(tensor: Any) -> Any:
    """A plain CPU tensor as a NumPy array, whose memory can travel beside the pickle; others as PyTorch does it."""
    import torch

    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.grad_fn is None
    if (
        not plain
        or vars(tensor)
        or tensor.is_quantized
        or tensor.dtype is torch.bfloat16
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        return tensor.__reduce_ex__(5)
    return _rebuild_tensor, (tensor.detach().numpy(), tensor.requires_grad)


def _reduce_parameter(parameter: Any) -> Any:
    if vars(parameter):  # marks that libraries put on it
        return parameter.__reduce_ex__(5)
    return _rebuild_parameter, (parameter.data, parameter.requires_grad)


def _rebuild_tensor(array: Any, requires_grad: bool) -> Any:
    import warnings

    import torch

    with warnings.catch_warnings():
        # A closed-over array is marked read-only; the pages below it are private, so writing is safe.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).requires_grad_(requires_grad)


def _rebuild_parameter(tensor: Any, requires_grad: bool) -> Any:
    import torch

    return torch.nn.Parameter(tensor, requires_grad)
