"""A script that maps slowly and leaves a trace of each task that ended: what the tests of killed callers run.

Tasks that the journal has as finished must never be run again, whatever happened to the caller in between.
"""

from __future__ import annotations

import json
from pathlib import Path

from tenfold.errors import RunUnusable
from tenfold.journal.folder import Folder
from tenfold.journal.store import Journal

SCRIPT = """
    import json, os, pathlib, sys, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def work(x):
        (folder / "began").touch()
        here = tenfold.here()
        (here.folder / "scratch").write_text("x")
        time.sleep({seconds})  # the work
        with open(folder / f"ended {{x}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        return x * 10 + round(here.rng.random(), 6)

    results = tenfold.map(work, range({count}), run={run!r}, {options})
    print(json.dumps(list(results)))
"""


def script(folder: Path, *, count: int = 30, seconds: float = 0.03, run: Path | None = None, options: str = "") -> str:
    return SCRIPT.format(
        folder=str(folder), count=count, seconds=seconds, run=str(run) if run is not None else None, options=options
    )


def expected(count: int = 30) -> list[float]:
    import numpy

    rngs = [numpy.random.default_rng(own) for own in numpy.random.SeedSequence(0).spawn(count)]
    return [x * 10 + round(rng.random(), 6) for x, rng in enumerate(rngs)]


def runs(folder: Path, count: int = 30) -> dict[int, int]:
    """Task -> how often it ran to its end."""
    found = {}
    for x in range(count):
        path = folder / f"ended {x}"
        found[x] = len(path.read_text().splitlines()) if path.exists() else 0
    return found


def committed(run: Path) -> set[int]:
    """Tasks that the journal of a run has as finished."""
    try:
        journal = Journal(Folder(run), read_only=True)
    except RunUnusable:  # killed before there was a journal
        return set()
    try:
        return {index for first, count in journal.finished() for index in range(first, first + count)}
    finally:
        journal.close()


def results(out: str) -> list[float]:
    found: list[float] = json.loads(out.splitlines()[-1])
    return found
