"""The folder of a prepared set while somebody works on it: what is there, what of it can be used, and who holds it.

prepared/photos/
  .run/                 what happened when the set was made, for reports
  .preparing-3f2a.../   a call at work, or one that was killed: the same call goes on there, another one uses its rows
  .lock
  ...                   the set, as `data/manifest` has it
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tenfold.data import finishing, manifest, preparing, stores
from tenfold.data.form import Form
from tenfold.data.manifest import Manifest
from tenfold.data.placing import apart_of
from tenfold.data.preparing import Kept, Piece
from tenfold.data.source import Part
from tenfold.errors import BadCall, RunUnusable
from tenfold.journal import keeping
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal

WORK = ".preparing"
IDENTITY = "identity"
PARTS = "parts"
"""The run of the call at work."""


class Workplace:
    """For one call: `samples` identify what its rows are made of, `identity` how.

    `is_whole`: what has been made is of use only where no sample was left out.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, str],
        parts: list[Part] | None,
        format: str,  # noqa: A002
        *,
        is_whole: bool,
    ) -> None:
        self.folder = folder
        self._is_whole = is_whole
        self.identity = identity
        self.samples = None if parts is None else _digest([(part.start, part.stop, part.key) for part in parts])
        self._format = format
        self.work = folder / f"{WORK}-{_digest(sorted(identity.items()), self.samples, format, is_whole)}"
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
        if strange and not manifest.is_there(self.folder) and not list(self._works()):
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
            and not (self._is_whole and any(piece.faults for piece in found.pieces))
            and all((self.folder / name).exists() for name in stores.files(found.form, found.format))
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One call at a time."""
        with contextlib.ExitStack() as stack:
            with self._writing():
                stack.enter_context(Folder(self.folder, argument="to", lock=".lock").locked())
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """What the disk refuses is said to be about this folder."""
        try:
            yield
        except RunUnusable:
            raise
        except OSError as error:
            raise RunUnusable(
                f"to={str(self.folder)!r} cannot be used: {error.strerror or error}; what is done is kept, and the "
                "same call goes on from there"
            ) from error

    def clear(self) -> None:
        """Forget everything that was done. A set that is there can be read until another takes its place."""
        with self._writing():
            self._move()
            for work in self._works():
                shutil.rmtree(work, ignore_errors=True)
            self.work.mkdir()  # so that it is known whose the files are
            try:
                found = manifest.read(self.folder)
            except BadCall:  # not a manifest any more
                (self.folder / manifest.NAME).unlink()
            else:
                if found is not None:
                    found.disowned().write(self.folder / manifest.NAME)

    def moved_in(self) -> bool:
        """Whether a call like this one had all but moved its files into place, or has done so since we looked."""
        with self._writing():
            self._move()
        return self.is_made()

    def tidy(self) -> None:
        """A call that was killed at its very end has left the folder that it worked in."""
        if self.work.is_dir():
            # Where it is in use, or cannot be written, somebody else will do it.
            with contextlib.suppress(RunUnusable), self.held():
                if self.is_made():
                    shutil.rmtree(self.work, ignore_errors=True)

    def _move(self) -> None:
        """End what a call, like this one or not, was killed in: a set that is half in its place."""
        for work in self._works():
            finishing.move(work, self.folder)

    def prepare(self) -> dict[str, Kept]:
        """Make the place to work; returns rows that can be used again, by the key of their samples."""
        with self._writing():
            return self._prepared()

    def _prepared(self) -> dict[str, Kept]:
        if self.work.is_dir() and not _is_sound(self.work):  # only what has the right checksum is used of it
            self.work.rename(self.folder / f"{WORK}-{os.urandom(8).hex()}")
        self.work.mkdir(exist_ok=True)
        (self.work / IDENTITY).write_text(self._mark)
        whole = manifest.read(self.folder)
        kept: dict[str, Kept] = {}
        if whole is not None and whole.identity == self.identity:
            kept = whole.kept(self.folder)
            preparing.write_form(self.work, whole.form)
        for other in self._works():
            form = _form(other) if other != self.work and _text(other / IDENTITY) == self._mark else None
            if form is not None and preparing.write_form(self.work, form) == form:
                kept |= _unfinished(other)
        return {key: one for key, one in kept.items() if not (self._is_whole and one.faults)}

    @property
    def _mark(self) -> str:
        return _digest(sorted(self.identity.items()))

    def finish(self, found: Manifest) -> None:
        """The set is whole, and nothing else stays."""
        with self._writing():
            finishing.finish(self.work, self.folder, found, lambda ready: _keep(self.work, ready))
            for work in self._works():
                shutil.rmtree(work, ignore_errors=True)


def _keep(work: Path, ready: Path) -> None:
    """What happened stays with the set, for reports; a set is whole without it."""
    try:
        keeping.keep(Folder(work / PARTS), Folder(ready / keeping.NAME))
    except (OSError, sqlite3.Error):
        shutil.rmtree(ready / keeping.NAME, ignore_errors=True)


def _unfinished(work: Path) -> dict[str, Kept]:
    """What a call that was killed has made, by the key of its samples."""
    return {piece.key: _kept(work, piece) for piece in _made(work)[0] if piece.key is not None}


def _is_sound(work: Path) -> bool:
    """Whether all that a call that was killed has made is what it wrote: a machine may have lost its power."""
    (made, is_whole), form = _made(work), _form(work)
    if not is_whole:
        return False
    written = [piece for piece in made if piece.rows]
    if form is None:
        return not written

    def is_sound(piece: Piece) -> bool:
        return preparing.is_sound(_kept(work, piece), form)

    with ThreadPoolExecutor(thread_name_prefix="tenfold-verify") as threads:
        return all(threads.map(is_sound, written))


def _made(work: Path) -> tuple[list[Piece], bool]:
    """What its journals have, and whether all of them can be read: one may be damaged, or was only just begun."""
    found: list[Piece] = []
    is_whole = True
    for run in work.iterdir():
        if not is_run(run):
            continue
        try:
            with contextlib.closing(Journal(Folder(run), read_only=True)) as journal:
                found += [outcome.value for outcome in journal.outcomes(ok=True) if isinstance(outcome.value, Piece)]
        except RunUnusable:
            is_whole = False
    return found, is_whole


def _kept(work: Path, piece: Piece) -> Kept:
    home, place = (work, piece.start) if piece.in_place else (apart_of(work, piece.start), 0)
    return Kept(str(home), "raw", place, piece.rows, piece.crc, manifest.relative(piece))


def _form(work: Path) -> Form | None:
    """None where it is not known yet, or damaged."""
    try:
        return preparing.read_form(work)
    except (LookupError, ValueError):
        return None


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
