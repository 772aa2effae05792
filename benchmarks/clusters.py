"""What does tenfold add to a Dask or Ray cluster, against their own calls and their joblib backends?

All on 2 cores of one machine. Tiny tasks go through one cluster that is up. Before each turn its CPUs are free again,
for tenfold holds those of Ray for 5 s after a call; then everybody makes a small call that is not timed. Those who take
longer for a task are given fewer, and rates are compared. The 60 iterations of TensorFlow are whole scripts, from the
start of a cold interpreter to its exit, cluster included. The large array is closed over with tenfold, and scattered or
put by hand with the others; its time is that of the call, its memory the peak of the sum over all processes (PSS),
taken in a pass of its own that is not timed.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
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
    timed,
)

import tenfold

REPEATS = 3
WORKERS = 2
LIBRARIES = ("dask", "ray")
FIRST = 10  # tasks of the call that goes before a timed one
FREE_LIMIT = 60.0  # seconds until the CPUs of a cluster must be free

RATE = {"dask": 10.0, "ray": 5.0}
FASTER_SCRIPT = 2.0

Samples = dict[str, list[float]]


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    tables: list[Table] = []
    goals: list[Goal] = []
    samples: dict[str, Any] = {}
    for measure in (tiny_tasks, iterations, large_array):
        for library in LIBRARIES:
            table, kept, found = measure(library, chosen)
            tables.append(table)
            goals += kept
            samples[table.title] = found
    publish(Report(__doc__ or "", tables, goals, samples), chosen)


# -- tiny tasks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to run tiny tasks on a cluster."""

    count: int
    """How many it is given."""
    call: Callable[[int], list[int]]
    """Runs so many, and returns their results."""


Up = tuple[dict[str, Contestant], Callable[[], None]]
"""Who takes part on a cluster that is up, and what waits until its CPUs are free."""


def same(item: int) -> int:
    return item


def tiny_tasks(library: str, chosen: Options) -> tuple[Table, list[Goal], Samples]:
    """Tasks a second of everybody on the same cluster."""
    plain = PLAIN[library]
    with UP[library](1000 if chosen.quick else 1) as (contestants, free):
        for name, one in contestants.items():
            say(f"{library}: {one.count:,} tasks with {name}, for the first time")
            free()
            _refuse_wrong(name, one)
        seconds = take_turns({name: partial(_turn, one, free) for name, one in contestants.items()}, chosen.repeats)
        rates = {name: contestants[name].count / value for name, value in medians(seconds).items()}
        rows = [
            (
                name,
                f"{contestants[name].count:,}",
                spread(seconds[name]),
                f"{rate:,.0f}",
                f"{rates[TENFOLD] / rate:.2f}",
            )
            for name, rate in rates.items()
        ]
    head = ("contestant", "tasks", "turns, s", "per second", "tenfold's rate / this")
    table = Table(f"{library}: tasks that return their argument", head, rows)
    text = f"{library}: rate of tiny tasks, against {plain}"
    return table, [at_least(text, rates[TENFOLD] / rates[plain], RATE[library])], seconds


def _turn(one: Contestant, free: Callable[[], None]) -> float:
    """Nobody waits for what another one holds, and whoever keeps workers has them."""
    free()
    one.call(FIRST)
    return timed(partial(one.call, one.count))


def _refuse_wrong(name: str, one: Contestant) -> None:
    found = one.call(one.count)
    if found != list(range(one.count)):
        raise RuntimeError(f"{name} gave {len(found)} results for {one.count} tasks, or wrong ones")


@contextlib.contextmanager
def _dask_up(divisor: int) -> Iterator[Up]:
    from distributed import Client, LocalCluster

    def plain(count: int) -> list[int]:
        return list(client.gather(client.map(same, range(count), pure=False)))  # pure=False: no hash of each item

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        contestants = {
            TENFOLD: Contestant(100_000 // divisor, partial(_tenfold, client)),
            PLAIN["dask"]: Contestant(5_000 // divisor, plain),
            "joblib on Dask": Contestant(20_000 // divisor, partial(_joblib, "dask")),
        }
        yield contestants, lambda: None  # a foreman takes no thread of a Dask worker


@contextlib.contextmanager
def _ray_up(divisor: int) -> Iterator[Up]:
    import ray
    from ray.util.joblib import register_ray

    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        there: dict[str, Any] = {"address": "local", "_temp_dir": folder}
        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, **there)
        register_ray()
        task = ray.remote(same)

        def plain(count: int) -> list[int]:
            return list(ray.get([task.remote(item) for item in range(count)]))

        def free() -> None:
            deadline = time.monotonic() + FREE_LIMIT
            while ray.available_resources().get("CPU", 0) < WORKERS:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the CPUs of the Ray cluster were not free within {FREE_LIMIT:g} s")
                time.sleep(0.1)

        contestants = {
            TENFOLD: Contestant(100_000 // divisor, partial(_tenfold, ray)),
            PLAIN["ray"]: Contestant(10_000 // divisor, plain),
            "joblib on Ray": Contestant(100_000 // divisor, partial(_joblib, "ray")),
        }
        try:
            yield contestants, free
        finally:
            ray.shutdown()


def _tenfold(cluster: Any, count: int) -> list[int]:
    return list(tenfold.map(same, range(count), engine=cluster, workers=WORKERS, progress=False))


def _joblib(backend: str, count: int) -> list[int]:
    with joblib.parallel_config(backend, n_jobs=WORKERS):
        return list(joblib.Parallel()(joblib.delayed(same)(item) for item in range(count)))


PLAIN = {"dask": "client.map and gather", "ray": "ray.remote and ray.get"}
UP = {"dask": _dask_up, "ray": _ray_up}


# -- whole scripts ----------------------------------------------------------------------------------------------------


def iterations(library: str, chosen: Options) -> tuple[Table, list[Goal], Samples]:
    """The script of the question: tenfold's as it is, with this engine; the other written for this library."""
    count = 4 if chosen.quick else 60
    peer = f"{library}, by hand"
    scripts = {TENFOLD: "tensorflow_tenfold", peer: f"tensorflow_{library}"}
    # By hand on Dask the losses are not the same each time: its own threads draw from the random numbers of the tasks.
    checks: dict[str, Callable[[str], None]] = {TENFOLD: launch.Agreement(), peer: partial(_complete, count)}
    runs = {
        name: partial(_time_script, launch.command(script, count, 1000, 5), library, checks[name])
        for name, script in scripts.items()
    }
    seconds = take_turns(runs, chosen.repeats)
    middle = medians(seconds)
    rows = [
        (name, f"{value:.2f}", spread(seconds[name]), f"{value / middle[TENFOLD]:.2f}")
        for name, value in middle.items()
    ]
    head = ("contestant", "median s", "turns", "s / tenfold's s")
    table = Table(f"{library}: {count} iterations of TensorFlow, whole scripts from a cold cluster", head, rows)
    text = f"{library}: {count} iterations of TensorFlow, faster than by hand"
    return table, [at_least(text, middle[peer] / middle[TENFOLD], FASTER_SCRIPT)], seconds


def _complete(count: int, printed: str) -> None:
    if printed.count("final loss") != count:
        raise launch.ScriptFailed(f"expected {count} losses: {printed}")


def _time_script(words: list[str], library: str, check: Callable[[str], None]) -> float:
    with launch.environment() as variables:  # a folder of its own each time: no nursery is left from the last turn
        seconds, printed = launch.run(words, variables | {"TENFOLD_ENGINE": library})
    check(printed)
    return seconds


# -- a large array ----------------------------------------------------------------------------------------------------

BY_HAND = {
    "dask": {"scatter, 2 workers": "dask-processes", "scatter, 1 worker with 2 threads": "dask-threads"},
    "ray": {"ray.put": "ray"},
}


def large_array(library: str, chosen: Options) -> tuple[Table, list[Goal], Samples]:
    """Time and memory of tenfold's closure, against the best that was written by hand: in each, the better one."""
    size = 50 if chosen.quick else 1000
    scripts = {TENFOLD: f"tenfold-{library}", **BY_HAND[library]}
    words = {name: launch.command("large_array", script, size) for name, script in scripts.items()}
    memory = {}
    for name, one in words.items():
        say(f"{library}: memory of {name}")
        with launch.environment() as variables:
            memory[name], _ = launch.weigh(one, variables)
    seconds = take_turns({name: partial(_time_call, one) for name, one in words.items()}, chosen.repeats)
    middle = medians(seconds)
    rows = [
        (name, f"{value:.2f}", spread(seconds[name]), f"{memory[name] / 1e6:,.0f} MB") for name, value in middle.items()
    ]
    title = f"{library}: 100 tasks that each sum a slice of one array of {size:,} MB"
    table = Table(title, ("contestant", "median s", "turns", "peak memory"), rows)
    goals = []
    for what, found in (("time", middle), ("memory", memory)):
        best = min(found[name] for name in BY_HAND[library])
        goals.append(at_most(f"{title}: {what} / the best by hand", found[TENFOLD] / best, 1))
    return table, goals, seconds


def _time_call(words: list[str]) -> float:
    with launch.environment() as variables:
        _, printed = launch.run(words, variables)
    return float(json.loads(printed)["seconds"])


if __name__ == "__main__":
    main()
