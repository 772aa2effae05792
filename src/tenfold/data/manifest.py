"""The manifest of a prepared set: what is in its files, what it was made of, and a checksum for each part.

    prepared/photos/
      manifest.json
      x.npy  y.npy       one file for each column; or data.zarr, or data.parquet
      quarantine.jsonl   samples that were left out because something was wrong with them, one a line

It is written last, so a folder with a manifest is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tenfold.data.form import Form
from tenfold.data.preparing import Fault, Kept, Piece
from tenfold.errors import BadCall

NAME = "manifest.json"
QUARANTINE = "quarantine.jsonl"
VERSION = 1
_BEGIN = b'{"form": {'


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a prepared set is."""

    form: Form
    """Its columns."""
    format: str
    """Of its files: "npy", "zarr" or "parquet"."""
    rows: int
    """How many there are."""
    identity: dict[str, str]
    """Of the function and its settings, part by part."""
    source: str
    """In words."""
    samples: str | None
    """What identifies the samples that it was made of; None for a stream, of which that is only known at its end."""
    pieces: tuple[Piece, ...]
    """What became of each part of the source, in order."""
    damaged: tuple[int, ...] = ()
    """Pieces whose rows were found not to be what was written."""

    def placed(self) -> Iterator[tuple[int, Piece]]:
        """Each piece, with the place of its first row."""
        place = 0
        for piece in self.pieces:
            yield place, piece
            place += piece.rows

    def kept(self, folder: Path) -> dict[str, Kept]:
        """What can be used again, by key."""
        return {
            piece.key: Kept(str(folder), self.format, place, piece.rows, piece.crc, relative(piece))
            for number, (place, piece) in enumerate(self.placed())
            if piece.key is not None and number not in self.damaged
        }

    def write(self, path: Path) -> None:
        """Whole, or not at all."""
        pieces = [[p.start, p.stop, p.key, p.rows, p.crc, [asdict(fault) for fault in p.faults]] for p in self.pieces]
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        found |= {"form": self.form.as_json(), "pieces": pieces, "version": VERSION}
        partial = path.with_suffix(".partial")
        with open(partial, "w") as file:
            json.dump(found, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)

    def disowned(self) -> Manifest:
        """The same rows, which no call takes for its own."""
        return replace(self, identity={}, samples=None)

    def marked(self, damaged: list[int]) -> Manifest:
        return replace(self, damaged=tuple(damaged))


def relative(piece: Piece) -> tuple[Fault, ...]:
    return tuple(replace(fault, sample=fault.sample - piece.start) for fault in piece.faults)


def is_there(folder: Path) -> bool:
    """Whether there is one, though it may be damaged, or of a later version."""
    try:
        return read(folder) is not None
    except BadCall:
        return True


def read(folder: Path, name: str = NAME) -> Manifest | None:
    """None where there is none: the set is not whole, or there is no set. Others have files of that name, too."""
    try:
        content = (folder / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    try:
        found: Any = json.loads(content)
    except ValueError as error:
        if not content.startswith(_BEGIN):
            return None
        raise BadCall(f"{str(folder / name)!r} is not a manifest that can be read: {error}") from error
    if not isinstance(found, dict) or not {"form", "pieces"} <= found.keys():
        return None
    if found.get("version", 0) > VERSION:
        raise BadCall(
            f"{str(folder / name)!r} is of version {found.get('version')}: this tenfold reads prepared sets of version "
            f"{VERSION}"
        )
    pieces = [
        Piece(start, stop, key, rows, crc, tuple(Fault(**fault) for fault in faults))
        for start, stop, key, rows, crc, faults in found["pieces"]
    ]
    return Manifest(
        Form.from_json(found["form"]),
        found["format"],
        found["rows"],
        found["identity"],
        found["source"],
        found["samples"],
        tuple(pieces),
        tuple(found["damaged"]),
    )
