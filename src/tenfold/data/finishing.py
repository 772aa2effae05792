"""In the caller: from pieces that workers have written to a set that is whole, in steps that a kill cannot tear.

1. columns are given their header, or are joined where rows are not where their samples were
2. `finished.json` is written: from here on the set is only moved into place, by whoever comes next
3. the old manifest is put by, its files go, the new ones are moved, the new manifest comes, the working folder goes
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tenfold.data import manifest, stores, writing
from tenfold.data.form import Form
from tenfold.data.manifest import Manifest
from tenfold.data.placing import apart_of
from tenfold.data.preparing import Piece

FINISHED = "finished.json"
READY = "ready"
RETIRED = "retired"
"""Holds the manifest of the set that is replaced, which says what of it is to go, also after a kill."""


def finish(work: Path, to: Path, found: Manifest, add: Callable[[Path], None]) -> None:
    """Make the set in `to` of the pieces in `work`; `add` may put more into the folder that is moved there."""
    ready = work / READY
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    _columns(work, ready, found.form, found.pieces)
    stores.convert(ready, found.form, found.format)
    faults = [fault for piece in found.pieces for fault in piece.faults]
    if faults:
        lines = "".join(f"{json.dumps(asdict(fault))}\n" for fault in faults)
        (ready / manifest.QUARANTINE).write_text(lines)
    add(ready)
    found.write(work / FINISHED)
    move(work, to)


def _columns(work: Path, ready: Path, form: Form, pieces: Sequence[Piece]) -> None:
    rows = sum(piece.rows for piece in pieces)
    for column in form.columns:
        whole, target = writing.path_of(work, column), writing.path_of(ready, column)
        if all(piece.in_place for piece in pieces):
            _same_file(whole, target)
        else:
            writing.join(target, column, ((writing.path_of(f, column), r) for f, r in _ranges(work, pieces)))
        writing.finish(target, column, rows)


def _same_file(path: Path, target: Path) -> None:
    """Under a second name, so that a call that is killed here finds it under the first."""
    try:
        os.link(path, target)
    except OSError:  # a file system without links
        shutil.copyfile(path, target)


def _ranges(work: Path, pieces: Sequence[Piece]) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Where each piece's rows are, in order."""
    for piece in pieces:
        if piece.rows:
            yield (
                (work, (piece.start, piece.stop))
                if piece.in_place
                else (
                    apart_of(work, piece.start),
                    (0, piece.rows),
                )
            )


def move(work: Path, to: Path) -> None:
    """The last step; also for a call that was killed in it."""
    if not (work / FINISHED).is_file():
        return
    retired = work / RETIRED
    retired.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.replace(to / manifest.NAME, retired / manifest.NAME)
    for name in _names(manifest.read(retired)) - _names(manifest.read(work, FINISHED)):
        _remove(to / name)
    for path in sorted((work / READY).iterdir()):
        _remove(to / path.name)
        os.replace(path, to / path.name)
    os.replace(work / FINISHED, to / manifest.NAME)
    shutil.rmtree(work, ignore_errors=True)


def _names(found: Manifest | None) -> set[str]:
    """The files of a set."""
    if found is None:
        return set()
    has_faults = any(piece.faults for piece in found.pieces)
    return {*stores.files(found.form, found.format), *([manifest.QUARANTINE] if has_faults else [])}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
