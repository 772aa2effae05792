"""100 tasks on a cluster of 2 cores, each of which sums a slice of one large array. Arguments: CONTESTANT MEGABYTES.

Prints JSON: the seconds of the call, with the cluster up and the array made before, and the sum of all slices.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SLICES = 100
WORKERS = 2

Sums = Callable[[np.ndarray], list[float]]


def part(data: np.ndarray, place: int) -> float:
    size = -(-len(data) // SLICES)
    return float(data[place * size : (place + 1) * size].sum())


@contextlib.contextmanager
def tenfold_on(engine: str) -> Iterator[Sums]:
    """The array is closed over, as in any function."""
    import tenfold

    tenfold.map(abs, range(WORKERS), engine=engine)

    def sums(data: np.ndarray) -> list[float]:
        return list(tenfold.map(lambda place: part(data, place), range(SLICES), workers=WORKERS, engine=engine))

    yield sums


@contextlib.contextmanager
def dask(workers: int) -> Iterator[Sums]:
    """By hand: scattered to every worker, and given to each task as a future."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": WORKERS // workers}
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        client.gather(client.map(abs, range(WORKERS)))

        def sums(data: np.ndarray) -> list[float]:
            there = client.scatter(data, broadcast=True)
            return list(client.gather(client.map(lambda place, data: part(data, place), range(SLICES), data=there)))

        yield sums


@contextlib.contextmanager
def ray() -> Iterator[Sums]:
    """By hand: put into the object store, and given to each task by its reference."""
    import ray as library

    library.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    task = library.remote(part)
    library.get([task.remote(np.ones(SLICES), place) for place in range(WORKERS)])

    def sums(data: np.ndarray) -> list[float]:
        there = library.put(data)
        return list(library.get([task.remote(there, place) for place in range(SLICES)]))

    yield sums
    library.shutdown()


CONTESTANTS: dict[str, Callable[[], contextlib.AbstractContextManager[Sums]]] = {
    "tenfold-dask": lambda: tenfold_on("dask"),
    "tenfold-ray": lambda: tenfold_on("ray"),
    "dask-processes": lambda: dask(WORKERS),
    "dask-threads": lambda: dask(1),
    "ray": ray,
}


def main(contestant: str, megabytes: int) -> None:
    with CONTESTANTS[contestant]() as sums:
        data = np.ones(megabytes * 1_000_000 // 8)
        began = time.perf_counter()
        found = sums(data)
        seconds = time.perf_counter() - began
    if sum(found) != len(data):
        raise SystemExit(f"the sum is {sum(found)}; expected {len(data)}")
    print(json.dumps({"seconds": seconds, "sum": sum(found)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
