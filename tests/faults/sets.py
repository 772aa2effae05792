"""Sets whose function notes each of its calls, made here or by a script that can be killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

import tenfold
from tenfold.data.preparing import Piece
from tenfold.errors import RunUnusable
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal

SCRIPT = """
    import os, pathlib, time
    import numpy
    import tenfold

    folder = pathlib.Path({folder!r})
    x = numpy.arange({count} * 3.0).reshape({count}, 3)

    def work(row):
        place = int(row[0]) // 3
        with open(folder / f"call {{place}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep({seconds})  # the work
        if {filters} and place % 3 == 1:
            return None
        return row * 2 + numpy.random.random()

    made = tenfold.prepare(work, x, {to!r}, progress=False, {options})
    assert made.verify() == [], made.verify()
    numpy.save(folder / "found.npy", made.numpy())
    print(len(made))
"""


def script(
    folder: Path, *, count: int = 60, seconds: float = 0.01, filters: bool = False, to: str = "set", options: str = ""
) -> str:
    return SCRIPT.format(folder=str(folder), count=count, seconds=seconds, filters=filters, to=to, options=options)


def calls(folder: Path) -> dict[int, int]:
    """Sample -> how often the function was called with it."""
    found = {}
    for path in folder.glob("call *"):
        found[int(path.name.split()[1])] = len(path.read_text().splitlines())
    return found


def committed(to: Path) -> set[int]:
    """Samples that a call at work, or one that was killed, has as done."""
    found: set[int] = set()
    for run in to.glob(".preparing-*/*"):
        if not is_run(run):
            continue
        try:
            journal = Journal(Folder(run), read_only=True)
        except RunUnusable:  # killed before there was a journal
            continue
        try:
            pieces = [outcome.value for outcome in journal.outcomes(ok=True)]
        finally:
            journal.close()
        found.update(place for piece in pieces if isinstance(piece, Piece) for place in range(piece.start, piece.stop))
    return found


def rows(folder: Path) -> NDArray[numpy.float64]:
    """What the script has made."""
    found: NDArray[numpy.float64] = numpy.load(folder / "found.npy")
    return found


def left(to: Path) -> list[str]:
    """What is in the folder of a set that should not be."""
    expected = {"manifest.json", "data.npy", "quarantine.jsonl", ".lock", ".run"}
    return sorted(path.name for path in to.iterdir() if path.name not in expected)


X = numpy.arange(900.0).reshape(300, 3)


def prepare(function: Callable[[Any], Any], source: Any, to: Path, **options: Any) -> tenfold.Prepared:
    return tenfold.prepare(function, source, to, progress=False, **options)


def counted(folder: Path) -> Callable[[Any], Any]:
    """Doubles, and notes each sample."""

    def double(row: Any) -> Any:
        with open(folder / f"call {int(row[0]) // 3}", "a") as file:
            file.write("x\n")
        return row * 2

    return double


def forget(folder: Path) -> None:
    for path in folder.glob("call *"):
        path.unlink()
