"""How long does it take to put a data set through a function, with tenfold and with what people use today?

Float images of 128 x 128 x 3 are made 64 x 64, with scikit-image as in many a tutorial and with Pillow; and a function
of a few microseconds is called for a million numbers, or by tenfold, batched, with many of them at once. Where it is
arithmetic alone, tenfold gives it many at once by itself; with a branch in it, it is called for each. Every
contestant reads the same mapped file and ends with all results in one array, in order; tenfold's is in a file besides.
The ideal is the time of the plain loop divided by the number of cores. Times are from after the imports to the last
row; then tenfold is called again on what it has made.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import launch
from contest import (
    TENFOLD,
    Goal,
    Options,
    Report,
    Table,
    at_least,
    at_most,
    medians,
    options,
    publish,
    say,
    spread,
    take_turns,
)
from rows import write as write_rows

REPEATS = 3
LOOP, JOBLIB, BATCHED = "loop", "joblib", "tenfold_batched"
PEERS = (LOOP, JOBLIB, "pool", "dask", "ray", "tf_data")
SECOND = "tenfold, second call"
TASKS = {
    "1,000 images, scikit-image": ("skimage", 1_000, PEERS),
    "1,000 images, Pillow": ("pillow", 1_000, PEERS),
    "20,000 images, scikit-image": ("skimage", 20_000, (LOOP, JOBLIB, "pool", "dask")),
    "20,000 images, Pillow": ("pillow", 20_000, PEERS),
    "1,000,000 numbers, a tiny function": ("tiny", 1_000_000, (LOOP, JOBLIB, BATCHED)),
    "1,000,000 numbers, a tiny function with a branch": ("branch", 1_000_000, (LOOP, JOBLIB)),
}


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for title, (task, count, peers) in TASKS.items():
            found[title] = measure(Path(folder), title, task, count // (20 if chosen.quick else 1), peers, chosen)
    publish(Report(__doc__ or "", [table(title, turns) for title, turns in found.items()], goals(found), found), chosen)


def measure(
    folder: Path, title: str, task: str, count: int, peers: tuple[str, ...], chosen: Options
) -> dict[str, list[float]]:
    """Seconds of each turn of each contestant."""
    say(title)
    source = folder / f"{'numbers' if 'tiny' in title else 'images'}-{count}.npy"
    if not source.exists():
        write_rows(source, count, () if "tiny" in title else (128, 128, 3))
    repeats = 1 if count >= 20_000 else chosen.repeats  # minutes each
    check = launch.SameRows(1e-5)
    with launch.environment() as variables:
        runs = {name: partial(_run, name, task, source, folder, variables, check) for name in (TENFOLD, *peers)}
        turns = take_turns(runs, repeats)
        turns[SECOND] = [_again(task, source, folder, variables, check) for _ in range(repeats)]
    return turns


def _run(name: str, task: str, source: Path, folder: Path, variables: dict[str, str], check: launch.SameRows) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as to:
        return _call(name, task, source, Path(to) / "set", variables, check)


def _again(task: str, source: Path, folder: Path, variables: dict[str, str], check: launch.SameRows) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as to:
        for _ in range(2):
            seconds = _call(TENFOLD, task, source, Path(to) / "set", variables, check)
        return seconds


def _call(name: str, task: str, source: Path, to: Path, variables: dict[str, str], check: launch.SameRows) -> float:
    return launch.timed(launch.command("prepare_images", name, task, source, to), variables, check)


def table(title: str, turns: dict[str, list[float]]) -> Table:
    middle = medians(turns)
    rows = [
        (name, f"{seconds:.2f}", spread(turns[name]), f"{seconds / middle[TENFOLD]:.2f}")
        for name, seconds in middle.items()
    ]
    return Table(
        f"{title} (turns: {len(turns[TENFOLD])})", ("contestant", "median s", "turns", "s / tenfold's s"), rows
    )


def goals(found: dict[str, dict[str, list[float]]]) -> list[Goal]:
    kept = []
    cores = len(os.sched_getaffinity(0))
    for title, turns in found.items():
        middle = medians(turns)
        peers = {name: seconds for name, seconds in middle.items() if name not in (TENFOLD, SECOND, LOOP)}
        if "tiny" in title:
            kept.append(at_least(f"{title}, against joblib", middle[JOBLIB] / middle[TENFOLD], 20))
            if BATCHED in middle:
                kept.append(at_least(f"{title}, batched=True, against joblib", middle[JOBLIB] / middle[BATCHED], 20))
            kept.append(at_least(f"{title}, of the ideal", middle[LOOP] / cores / middle[TENFOLD], 0.93))
        else:
            best = min(peers, key=lambda name: peers[name])
            kept.append(at_least(f"{title}, against the best peer ({best})", peers[best] / middle[TENFOLD], 1))
            kept.append(at_least(f"{title}, of the ideal", middle[LOOP] / cores / middle[TENFOLD], 0.93))
        kept.append(at_most(f"{title}, second call", middle[SECOND], 0.1, "s"))
    return kept


if __name__ == "__main__":
    main()
