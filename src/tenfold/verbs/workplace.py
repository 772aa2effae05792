"""The folder of a prepared set while somebody works on it: what is there, what of it can be used, and who holds it.

prepared/photos/
  .preparing-3f2a.../   a call at work, or one that was killed: the same call goes on there, another one uses its rows
  .lock
  ...                   the set, as `data/manifest` has it
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenfold.data import finishing, manifest, preparing
from tenfold.data.manifest import Manifest
from tenfold.data.preparing import Kept, Piece
from tenfold.data.source import Part
from tenfold.errors import BadCall, RunUnusable
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal

WORK = ".preparing"
IDENTITY = "identity"


class Workplace:
    """For one call: `samples` identify what its rows are made of, `identity` how."""

    def __init__(self, folder: Path, identity: dict[str, str], parts: list[Part] | None, format: str) -> None:  # noqa: A002
        self.folder = folder
        self.identity = identity
        self.samples = None if parts is None else _digest([(part.start, part.stop, part.key) for part in parts])
        self._format = format
        self.work = folder / f"{WORK}-{_digest(sorted(identity.items()), self.samples, format)}"
        """Where this call works."""
        self._check()

    def _check(self) -> None:
        try:
            if self.folder.exists() and not self.folder.is_dir():
                raise BadCall(f"to={str(self.folder)!r} is a file; give the name of a folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            strange = sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")[:3]
        except OSError as error:
            raise RunUnusable(f"to={str(self.folder)!r} cannot be used: {error.strerror or error}") from error
        if strange and not (self.folder / manifest.NAME).is_file() and not list(self._works()):
            raise BadCall(
                f"to={str(self.folder)!r} holds files that are not a prepared set: {', '.join(strange)}; "
                "give another folder"
            )

    def _works(self) -> Iterator[Path]:
        return self.folder.glob(f"{WORK}-*")

    def is_made(self) -> bool:
        """The set is whole, and what this call would make."""
        found = manifest.read(self.folder)
        return (
            found is not None
            and found.samples is not None
            and (found.identity, found.format, found.samples) == (self.identity, self._format, self.samples)
            and not found.damaged
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One call at a time."""
        with Folder(self.folder, argument="to", lock=".lock").locked():
            yield

    def clear(self) -> None:
        """Forget everything; files of the set are replaced at the end."""
        for work in self._works():
            shutil.rmtree(work, ignore_errors=True)
        (self.folder / manifest.NAME).unlink(missing_ok=True)
        self.work.mkdir()  # so that it is known whose the files are

    def moved_in(self) -> bool:
        """Whether a call like this one had all but moved its files into place, or has done so since we looked."""
        finishing.move(self.work, self.folder)
        return self.is_made()

    def prepare(self) -> dict[str, Kept]:
        """Make the place to work; returns rows that can be used again, by the key of their samples."""
        self.work.mkdir(exist_ok=True)
        (self.work / IDENTITY).write_text(self._mark)
        whole = manifest.read(self.folder)
        kept: dict[str, Kept] = {}
        if whole is not None and whole.identity == self.identity:
            kept = whole.kept(self.folder)
            preparing.write_form(self.work, whole.form)
        for other in self._works():
            if other != self.work and _text(other / IDENTITY) == self._mark and (other / preparing.FORM).is_file():
                preparing.write_form(self.work, preparing.read_form(other))
                kept |= _unfinished(other)
        return kept

    @property
    def _mark(self) -> str:
        return _digest(sorted(self.identity.items()))

    def finish(self, found: Manifest) -> None:
        """The set is whole, and nothing else stays."""
        finishing.finish(self.work, self.folder, found)
        for work in self._works():
            shutil.rmtree(work, ignore_errors=True)


def _unfinished(work: Path) -> dict[str, Kept]:
    """What a call that was killed has made."""
    found: dict[str, Kept] = {}
    for run in work.iterdir():
        if not is_run(run):
            continue
        with contextlib.closing(Journal(Folder(run), read_only=True)) as journal:
            for outcome in journal.outcomes(ok=True):
                piece = outcome.value
                if isinstance(piece, Piece) and piece.key is not None:
                    home, place = (work, piece.start) if piece.in_place else (preparing.apart_of(work, piece.start), 0)
                    found[piece.key] = Kept(str(home), "raw", place, piece.rows, piece.crc, manifest.relative(piece))
    return found


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
