"""What changes when data does: digests of content, and marks of files, which are not read for that."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

SIZE = 16  # bytes of a digest


def of_texts(*texts: object) -> str:
    """One digest of several texts or numbers. Each ends with a mark of its own: "a", "bc" are not "ab", "c"."""
    found = hashlib.blake2b(digest_size=SIZE)
    for text in texts:
        found.update(str(text).encode("utf-8", "surrogateescape") + b"\0")
    return found.hexdigest()


def of_array(array: np.ndarray[Any, Any]) -> str:
    """A digest of what is in it, and of its type; wherever it lies in memory."""
    found = hashlib.blake2b(f"{array.dtype.str}{array.dtype}{array.shape[1:]}".encode(), digest_size=SIZE)
    if array.dtype.hasobject:
        found.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))  # texts: what memory holds are addresses
    elif array.nbytes:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def of_file(path: str | os.PathLike[str]) -> str:
    """Name, size and time. Not the folder: data that was moved as it is, is the same."""
    facts = os.stat(path)
    return of_texts(os.path.basename(path), facts.st_size, facts.st_mtime_ns)


class Digesting:
    """A file to write to, of which only a digest remains: for pickles that are too large to be held."""

    def __init__(self) -> None:
        self._found = hashlib.blake2b(digest_size=SIZE)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._found.update(view)
        return len(view)

    def hexdigest(self) -> str:
        return self._found.hexdigest()
