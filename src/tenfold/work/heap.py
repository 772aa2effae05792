"""A worker keeps a little of the memory that it frees, because its next step will want as much again.

By itself glibc gives large blocks back at once, and every page of the next one is zeroed and mapped anew: a sixth of
the time of small models that are trained together. What is kept is less than an import of a framework takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

KEPT = 64 << 20  # bytes at the end of the heap that are not given back
APART = 32 << 20  # from this size on, a block is mapped for itself, and given back when it is freed; the most there is
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed() -> None:
    """For the rest of this process's life; nothing where the user has settings of their own, or the C library none."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_MMAP_THRESHOLD, APART)
