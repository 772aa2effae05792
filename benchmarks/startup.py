"""How long does it take until k fresh workers have each trained a small Keras model, and how much memory has each?

The function imports Keras itself, as functions in notebooks do: the caller has imported no framework. A first pool
pays for everything; a second pool, with fresh workers again, shows what every later one costs. The workers wait for
each other after training, so that each of the k tasks is in a worker of its own. Peers: loky, on which joblib runs,
and multiprocessing with spawned workers. Private memory is what a worker adds to the machine (USS); "together" is the
caller, the workers and whatever else the library runs (PSS).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import launch
from contest import TENFOLD, Goal, Report, Table, at_least, at_most, options, publish, say, take_turns

REPEATS = 1
PEERS = ("loky", "multiprocessing")
WORKERS = (1, 2, 4, 8)
POOLS = ("first", "second")

FASTER_FROM_SECOND = 4.0
MEMORY_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Pools:
    """What one library's two pools took, as medians over all turns."""

    seconds: tuple[float, ...]
    """Of the first and of the second pool."""
    private: float
    """Bytes of a worker in the second pool."""
    together: float
    """Bytes of all processes with the second pool."""


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    counts = WORKERS[:2] if chosen.quick else WORKERS
    samples = {workers: measure(workers, chosen.repeats) for workers in counts}
    found = {
        workers: {name: summary(turns) for name, turns in libraries.items()} for workers, libraries in samples.items()
    }
    tables = [table(found)]
    goals = [goal for workers, libraries in found.items() for goal in judge(workers, libraries)]
    kept = {f"workers={workers}": libraries for workers, libraries in samples.items()}
    publish(Report(__doc__ or "", tables, goals, kept), chosen)


def measure(workers: int, repeats: int) -> dict[str, list[Any]]:
    """Every turn of every library: what scripts/startup_pools.py prints."""
    say(f"workers={workers}")
    with launch.environment() as variables:
        runs = {name: partial(_run, name, workers, variables) for name in (TENFOLD, *PEERS)}
        return take_turns(runs, repeats)


def _run(library: str, workers: int, variables: dict[str, str]) -> Any:
    _, printed = launch.run(launch.command("startup_pools", library, workers), variables)
    return json.loads(printed)


def summary(turns: Sequence[Any]) -> Pools:
    seconds = tuple(statistics.median(turn[place]["seconds"] for turn in turns) for place in range(len(POOLS)))
    private = statistics.median(size for turn in turns for size in turn[1]["private"])
    return Pools(seconds, private, statistics.median(turn[1]["everybody"] for turn in turns))


def table(found: dict[int, dict[str, Pools]]) -> Table:
    head = (
        "workers",
        "library",
        "first pool s",
        "ratio",
        "second pool s",
        "ratio",
        "MB/worker",
        "ratio",
        "MB together",
    )
    rows = [row for workers, libraries in found.items() for row in _rows(workers, libraries)]
    return Table("seconds until all have trained; each ratio is to tenfold's", head, rows, words=2)


def _rows(workers: int, libraries: dict[str, Pools]) -> Iterator[tuple[str, ...]]:
    ours = libraries[TENFOLD]
    for name, pools in libraries.items():
        cells = [str(workers), name]
        for seconds, our_seconds in zip(pools.seconds, ours.seconds, strict=True):
            cells += [f"{seconds:.2f}", f"{seconds / our_seconds:.2f}"]
        cells += [f"{pools.private / 1e6:.0f}", f"{pools.private / ours.private:.2f}", f"{pools.together / 1e6:.0f}"]
        yield tuple(cells)


def judge(workers: int, libraries: dict[str, Pools]) -> Iterator[Goal]:
    """Each goal against the better of the peers."""
    ours, peers = libraries[TENFOLD], [libraries[name] for name in PEERS]
    gain = min(peer.seconds[1] for peer in peers) / ours.seconds[1]
    yield at_least(f"workers={workers}: the second pool faster than any peer's", gain, FASTER_FROM_SECOND)
    share = ours.private / min(peer.private for peer in peers)
    yield at_most(f"workers={workers}: a worker's memory as a share of any peer's", share, MEMORY_SHARE)


if __name__ == "__main__":
    main()
