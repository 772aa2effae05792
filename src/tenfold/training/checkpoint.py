"""In the caller: what a training goes on from when no worker is left that holds it.

One file, whole or not there, with a checksum; so a torn one is never used.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from tenfold.journal.folder import write_whole

_DIGEST = 32
_MARK = struct.Struct("<q")


class Checkpoint:
    """The file of one training; there is none without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        found = self._read()
        self.mark = -1 if found is None else found[0]
        """How far the model in it is; -1 where there is none."""

    def write(self, mark: int, body: bytes) -> None:
        """Beside, and renamed: who is killed here leaves the last one."""
        if self._path is None:
            return
        digest = hashlib.blake2b(_MARK.pack(mark), digest_size=_DIGEST)
        digest.update(body)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path, b"".join((digest.digest(), _MARK.pack(mark), body)))
        self.mark = mark

    def body(self) -> bytes:
        """The state in it."""
        found = self._read()
        if found is None:
            raise OSError(f"{self._path}: the checkpoint is gone, or damaged")
        return found[1]

    def _read(self) -> tuple[int, bytes] | None:
        if self._path is None or not self._path.is_file():
            return None
        found = self._path.read_bytes()
        digest, content = found[:_DIGEST], found[_DIGEST:]
        if hashlib.blake2b(content, digest_size=_DIGEST).digest() != digest:
            return None
        return _MARK.unpack_from(content)[0], content[_MARK.size :]
