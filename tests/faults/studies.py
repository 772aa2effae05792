"""A script with a study that takes a while and leaves a line for each step that was done: for tests that kill it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tenfold.errors import RunUnusable
from tenfold.journal.folder import Folder
from tenfold.journal.store import Journal
from tenfold.search.trying import Tried
from tenfold.work.leg import Leg

TRIALS = 14
STEPS = 9

SCRIPT = """
    import json, os, pathlib, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def train(params):
        here = tenfold.here()
        kept = here.folder / "state"
        steps, loss = json.loads(kept.read_text()) if kept.exists() else (0, 1.0)
        if steps:
            here.report(steps, loss=loss)  # it may have been killed before
        while steps < {steps}:
            if steps == 2 and (folder / "die").exists():
                (folder / "die").unlink()
                os.kill(os.getpid(), 9)
            time.sleep({seconds})  # the work
            steps, loss = steps + 1, loss * (1 - params["x"] / 10)
            with open(folder / "log", "a") as file:
                file.write(f"{{params['x']!r}} {{steps}} {{os.getpid()}}\\n")
            partial = kept.with_suffix(".new")
            partial.write_text(json.dumps([steps, loss]))
            partial.replace(kept)
            here.report(steps, loss=loss)
        return loss

    def told(study):
        return [[t.number, t.params, t.state, t.value, t.steps, sorted(t.curve.items())] for t in study.trials]

    study = tenfold.tune(
        train, {{"x": tenfold.uniform(0, 1)}}, trials={trials}, steps={steps}, at_once=6, workers=2,
        run={run!r}, progress=False, {search}, {options}
    )
    print(json.dumps(told(study)))
"""


def script(
    folder: Path,
    *,
    run: str | None = "run",
    seconds: float = 0.02,
    options: str = "",
    search: str = 'pruner="asha"',
) -> str:
    more = {"options": options, "search": search, "trials": TRIALS, "steps": STEPS}
    return SCRIPT.format(folder=str(folder), run=run, seconds=seconds, **more)


def told(out: str) -> list[Any]:
    found: list[Any] = json.loads(out.splitlines()[-1])
    return found


def done(folder: Path) -> Counter[tuple[float, int]]:
    """(parameter, step) -> how often it was done."""
    lines = (folder / "log").read_text().split("\n") if (folder / "log").exists() else []
    return Counter((float(line.split()[0]), int(line.split()[1])) for line in lines if line.count(" ") == 2)


def committed(run: Path) -> set[tuple[float, int]]:
    """(parameter, step) of all legs that the journal has."""
    found = set()
    for leg, tried in legs(run):
        found |= {(leg.params["x"], step) for step in range(leg.start + 1, tried.steps + 1)}
    return found


def legs(run: Path) -> list[tuple[Leg, Tried]]:
    try:
        journal = Journal(Folder(run), read_only=True)
    except RunUnusable:  # killed before there was a journal
        return []
    try:
        return [(outcome.item, outcome.value) for outcome in journal.outcomes(ok=True)]
    except RunUnusable:  # it has no tables yet
        return []
    finally:
        journal.close()
