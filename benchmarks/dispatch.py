"""How many tiny tasks, and how many results of 100 KB, go through 2 workers in a second? Is memory bounded?

Every library is called once before it is timed, so that those who keep their workers have them; tenfold forks new ones
for each call. All results are read into a list. Memory is that of the caller (RSS) while a million items come from a
generator, with the results in memory and with them in a run folder on disk.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import launch
import numpy as np
from contest import TENFOLD, Goal, Report, Table, at_least, medians, options, publish, say, spread, take_turns, timed
from joblib import Parallel, delayed

import tenfold

REPEATS = 3
WORKERS = 2
RESULT = 100_000  # bytes
JOBLIB = "joblib"


@dataclass(frozen=True, slots=True)
class Load:
    """A function, and how often it is called."""

    title: str
    """For people."""
    task: Callable[[int], Any]
    """What a worker does."""
    count: int
    """How many items."""


def same(item: int) -> int:
    return item


def some_bytes(item: int) -> bytes:
    return bytes([item % 256]) * RESULT


def some_array(item: int) -> np.ndarray:
    return np.full(RESULT // 8, item, dtype=np.float64)


def loads(quick: bool) -> list[Load]:
    tiny, large = (2_000, 100) if quick else (100_000, 5_000)
    return [
        Load(f"{tiny:,} tasks that return their argument", same, tiny),
        Load(f"{large:,} results of 100 KB, bytes", some_bytes, large),
        Load(f"{large:,} results of 100 KB, a NumPy array", some_array, large),
    ]


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        found = {load: measure(load, pool, chosen.repeats) for load in loads(chosen.quick)}
    items = 20_000 if chosen.quick else 1_000_000
    memory = measure_memory(items)
    tables = [*(rates(load, seconds) for load, seconds in found.items()), growth(items, memory)]
    goals = [judge(load, seconds) for load, seconds in found.items()]
    samples = {load.title: seconds for load, seconds in found.items()} | {f"{items:,} items": memory}
    publish(Report(__doc__ or "", tables, goals, samples), chosen)


# -- rates ------------------------------------------------------------------------------------------------------------


def measure(load: Load, pool: Pool, repeats: int) -> dict[str, list[float]]:
    """Seconds of every turn; the first call of each contestant is not counted, and checked."""
    say(load.title)
    calls: dict[str, Callable[[], list[Any]]] = {
        TENFOLD: partial(_tenfold, load),
        JOBLIB: partial(_joblib, load),
        "Pool.map": lambda: pool.map(load.task, range(load.count)),
        "Pool.map, chunksize=1": lambda: pool.map(load.task, range(load.count), chunksize=1),
    }
    for name, call in calls.items():
        _refuse_wrong(name, load, call())
    return take_turns({name: partial(timed, call) for name, call in calls.items()}, repeats)


def _tenfold(load: Load) -> list[Any]:
    return list(tenfold.map(load.task, range(load.count), workers=WORKERS, progress=False))


def _joblib(load: Load) -> list[Any]:
    return list(Parallel(n_jobs=WORKERS)(delayed(load.task)(item) for item in range(load.count)))


def _refuse_wrong(name: str, load: Load, found: list[Any]) -> None:
    last = load.count - 1
    if len(found) != load.count or not np.array_equal(found[last], load.task(last)):
        raise RuntimeError(f"{name} gave {len(found)} results for {load.title}, or wrong ones")


def rates(load: Load, seconds: dict[str, list[float]]) -> Table:
    middle = medians(seconds)
    rows = [
        (name, f"{value:.3f}", spread(seconds[name]), f"{load.count / value:,.0f}", f"{value / middle[TENFOLD]:.2f}")
        for name, value in middle.items()
    ]
    return Table(load.title, ("contestant", "median s", "turns", "per second", "s / tenfold's s"), rows)


def judge(load: Load, seconds: dict[str, list[float]]) -> Goal:
    middle = medians(seconds)
    return at_least(f"{load.title}: at least joblib's rate", middle[JOBLIB] / middle[TENFOLD], 1)


# -- memory -----------------------------------------------------------------------------------------------------------


def measure_memory(items: int) -> dict[str, Any]:
    """What scripts/million_items.py prints, with and without a run folder; once, for it hardly varies."""
    found = {}
    with launch.environment() as variables, tempfile.TemporaryDirectory() as folder:
        for name, where in {"results in memory": [], "run= on disk": [Path(folder, "run")]}.items():
            say(f"{items:,} items, {name}")
            _, printed = launch.run(launch.command("million_items", items, *where), variables)
            found[name] = json.loads(printed)
    return found


def growth(items: int, memory: dict[str, Any]) -> Table:
    head = ("", "seconds", "start MB", "25 %", "50 %", "75 %", "end", "bytes/item", "after 25 %")
    title = f"memory of the caller while {items:,} items come from a generator"
    return Table(title, head, list(_growth_rows(items, memory)))


def _growth_rows(items: int, memory: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, found in memory.items():
        start, quarter, *_, end = found["memory"]
        sizes = [f"{size / 1e6:.1f}" for size in found["memory"]]
        per_item = [f"{(end - start) / items:.1f}", f"{(end - quarter) / items / 0.75:.1f}"]
        yield name, f"{found['seconds']:.1f}", *sizes, *per_item


if __name__ == "__main__":
    main()
