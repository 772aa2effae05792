"""The GPUs that are here and visible to this process.

Found with nvidia-ml-py where it is installed. `TENFOLD_GPUS=4` pretends that there are four, so that leasing can
be tried and tested on a machine without any. Not run on a GPU: written against NVML's documentation.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from tenfold.errors import BadCall

PRETEND_VARIABLE = "TENFOLD_GPUS"
PRETENDED_MEMORY = 16 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    address: str
    """What CUDA_VISIBLE_DEVICES calls it: a number in PCI order, or a UUID where the user named it so."""
    name: str
    """What the driver calls it."""
    memory: int
    """Bytes on it."""
    share: float = 1.0
    """The part of it that is ours: less than 1 inside a task that holds a fraction."""


def find() -> tuple[Gpu, ...]:
    """Every GPU that this process may use."""
    pretended = os.environ.get(PRETEND_VARIABLE)
    return _visible(_pretend(pretended) if pretended else _ask_driver())


def _pretend(text: str) -> list[Gpu]:
    if not (text.isascii() and text.isdigit()):
        raise BadCall(f"{PRETEND_VARIABLE}={text!r}: expected the number of GPUs to pretend, such as 4")
    return [Gpu(str(n), "pretended", PRETENDED_MEMORY) for n in range(int(text))]


def _ask_driver() -> list[Gpu]:
    if sys.platform == "linux" and not _has_library():
        return []
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # installed, but no driver: the usual case on a laptop
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        return [
            Gpu(str(n), str(pynvml.nvmlDeviceGetName(handle)), int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))
            for n, handle in enumerate(handles)
        ]
    finally:
        pynvml.nvmlShutdown()


def _has_library() -> bool:
    """Whether the driver's library is here, which pynvml would look for first: 6 ms, and most machines have none."""
    import ctypes  # not with `import tenfold`

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _visible(found: list[Gpu]) -> tuple[Gpu, ...]:
    """Keep what CUDA_VISIBLE_DEVICES leaves, in its order and under its names (numbers or UUIDs)."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(found)
    by_address = {gpu.address: gpu for gpu in found}
    kept = []
    for word in (word.strip() for word in chosen.split(",")):
        if word.startswith(("GPU-", "MIG-")) and found:
            # A name NVML knows but that we did not ask for one by one: the memory is the first GPU's.
            kept.append(Gpu(word, "by UUID", found[0].memory))
        elif word in by_address:
            kept.append(by_address[word])
        else:
            break  # CUDA ignores everything after the first invalid entry; "-1" hides all
    return tuple(dict.fromkeys(kept))
