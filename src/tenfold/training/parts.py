"""In the caller: what a divided training goes on from. A file for each worker, and a manifest that names them.

train.parts/
  10-0, 10-1     what each worker held after step 10
  manifest       the step, and the size and checksum of each part

The manifest is written last, and is there whole or not at all. A file that it does not name does not count: so parts of
two steps are never mixed, and a checkpoint stays until the next one is whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tenfold.journal.folder import write_whole

_DIGEST = 32


@dataclass(frozen=True, slots=True)
class _Part:
    """One file."""

    name: str
    """In the folder."""
    size: int
    """Bytes of it."""
    digest: str
    """Of its content."""


class Parts:
    """Those of one training; none are kept without a folder.

    Where the first worker's part is the whole, it counts as soon as that is there, and is given to all.
    """

    def __init__(self, folder: Path | None, count: int) -> None:
        """`count` is how many parts there are."""
        self._folder = folder
        self._count = count
        self._coming: dict[int, dict[int, _Part]] = {}
        self._whole: list[_Part] = []
        self.step = -1
        """After which the last whole checkpoint was taken; -1 where there is none."""

    def begin(self) -> None:
        """Workers start, or start again: what others have left unfinished does not count, nor does what is damaged."""
        self._coming.clear()
        self.step, self._whole = self._read()

    @property
    def keeps(self) -> bool:
        """Whether there is a place for them."""
        return self._folder is not None

    def add(self, rank: int, step: int, body: bytes) -> None:
        """One worker's part; with that of the last one, it is the checkpoint."""
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = _Part(f"{step}-{rank}", len(body), _digest(body))
        write_whole(self._folder / part.name, body)
        coming = self._coming.setdefault(step, {})
        coming[rank] = part
        if len(coming) == self._count:
            self._seal(step, [coming[rank] for rank in range(self._count)])

    def body(self, rank: int) -> bytes | None:
        """The part of a worker that goes on; None where it begins."""
        if self._folder is None or self.step < 0:
            return None
        part = self._whole[min(rank, self._count - 1)]
        found = (self._folder / part.name).read_bytes()
        if _digest(found) != part.digest:
            raise OSError(f"{self._folder / part.name}: this part of the checkpoint is damaged")
        return found

    def clear(self) -> None:
        """The training has come to its end."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _seal(self, step: int, parts: list[_Part]) -> None:
        assert self._folder is not None
        content = json.dumps({"step": step, "parts": [asdict(part) for part in parts]})
        write_whole(self._manifest, content.encode())
        self.step, self._whole = step, parts
        self._coming = {later: some for later, some in self._coming.items() if later > step}
        named = {self._manifest.name, *(part.name for part in parts)}
        named |= {part.name for some in self._coming.values() for part in some.values()}
        for path in self._folder.iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _read(self) -> tuple[int, list[_Part]]:
        if self._folder is None:
            return -1, []
        try:
            found = json.loads(self._manifest.read_bytes())
            step, parts = int(found["step"]), [_Part(**part) for part in found["parts"]]
            whole = len(parts) == self._count and all(map(self._is_whole, parts))
        except (OSError, ValueError, TypeError, KeyError):
            return -1, []
        return (step, parts) if whole else (-1, [])

    def _is_whole(self, part: _Part) -> bool:
        assert self._folder is not None
        with open(self._folder / part.name, "rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST))
        return found.hexdigest() == part.digest

    @property
    def _manifest(self) -> Path:
        assert self._folder is not None
        return self._folder / "manifest"


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=_DIGEST).hexdigest()
