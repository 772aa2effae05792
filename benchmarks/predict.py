"""How long does a small Keras model take over data larger than memory, with tenfold and with what people use today?

2,000,000 rows of 784 float32 on disk (6.3 GB) through Dense(128), Dense(10), with 1.5 GB of memory for each of
tenfold's workers. Peers: Keras `predict` on the mapped file, Dask `map_blocks` with the model loaded once in each
worker, Ray Data `map_batches`. The ceiling is what both cores reach on rows that are in memory already. Then tenfold
with a tenth of the rows: ten times the rows should cost ten times the time, and no more memory. `--plot FILE` draws the
memory over time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import launch
import psutil
from contest import (
    TENFOLD,
    Goal,
    Options,
    Report,
    Table,
    add_options,
    at_least,
    at_most,
    free_share,
    medians,
    publish,
    say,
    spread,
    take_turns,
)
from rows import write as write_rows

REPEATS = 1
PEERS = ("keras_predict", "dask", "ray")
CEILING = "both cores, rows in memory"
ROWS, WIDTH = 2_000_000, 784
EVERY = 0.1  # seconds between two looks at the memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, REPEATS)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw tenfold's memory over time")
    given = parser.parse_args()
    chosen = Options(given.repeats or REPEATS, given.quick, given.json, given.markdown, free_share())
    rows = ROWS // (50 if chosen.quick else 1)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        found, lines = measure(folder, rows, chosen)
    if given.plot is not None:
        draw(lines, given.plot)
    publish(Report(__doc__ or "", [table(found, rows)], goals(found, lines, rows), found), chosen)


def measure(folder: Path, rows: int, chosen: Options) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each turn, and tenfold's memory over time for all rows and for a tenth of them."""
    source, tenth, model = folder / "rows.npy", folder / "tenth.npy", folder / "model.keras"
    write_rows(source, rows, (WIDTH,))
    write_rows(tenth, rows // 10, (WIDTH,))
    with launch.environment() as variables:
        _model(model, variables)
        check = launch.SameRows(1e-4)
        runs = {n: partial(_run, n, source, model, folder, variables, check) for n in (TENFOLD, *PEERS)}
        found = take_turns(runs, chosen.repeats)
        _, printed = launch.run(launch.command("predict_rows", "memory", source, model, "-"), variables)
        found[CEILING] = [rows / json.loads(printed.splitlines()[-1])["speed"]]
        lines = {name: _watched(path, model, folder, variables) for name, path in (("all", source), ("tenth", tenth))}
    return found, lines


def _model(path: Path, variables: dict[str, str]) -> None:
    code = (
        "import keras, sys; keras.utils.set_random_seed(0);"
        f"m = keras.Sequential([keras.Input(({WIDTH},)), keras.layers.Dense(128, activation='relu'),"
        "keras.layers.Dense(10, activation='softmax')]); m.save(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=variables)


def _run(
    name: str, source: Path, model: Path, folder: Path, variables: dict[str, str], check: launch.SameRows
) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as to:
        words = launch.command("predict_rows", name, source, model, Path(to) / "set")
        return launch.timed(words, variables, check)


def _watched(source: Path, model: Path, folder: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Seconds, and the private memory of the script and all that it started, over time."""
    with tempfile.TemporaryDirectory(dir=folder) as to:
        words = launch.command("predict_rows", TENFOLD, source, model, Path(to) / "set")
        process = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True)
        began, line = time.perf_counter(), []
        while process.poll() is None:
            line.append((time.perf_counter() - began, _private(process.pid)))
            time.sleep(EVERY)
        printed = process.communicate()[0]
    return {"seconds": json.loads(printed.splitlines()[-1])["seconds"], "line": line}


def _private(pid: int) -> float:
    """Megabytes that belong to these processes alone: pages of the file that is read belong to nobody."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            try:
                total += process.memory_full_info().uss
            except psutil.Error:
                continue
    except psutil.Error:
        return 0.0
    return total / 1e6


def draw(lines: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.5), layout="constrained")
    for name, found in lines.items():
        axes.plot(*zip(*found["line"], strict=True), label={"all": "all rows", "tenth": "a tenth of them"}[name])
    axes.set(xlabel="seconds", ylabel="private memory, MB", ylim=(0, None))
    axes.legend()
    figure.savefig(path)


def table(found: dict[str, list[float]], rows: int) -> Table:
    middle = medians(found)
    lines = [
        (name, f"{seconds:.1f}", spread(found[name]), f"{rows / seconds / 1e3:.0f}", f"{seconds / middle[TENFOLD]:.2f}")
        for name, seconds in middle.items()
    ]
    return Table(f"{rows:,} rows", ("contestant", "median s", "turns", "thousand rows/s", "s / tenfold's s"), lines)


def goals(found: dict[str, list[float]], lines: dict[str, Any], rows: int) -> list[Goal]:
    middle = medians(found)
    kept = [at_least(f"against {name}", middle[name] / middle[TENFOLD], 1) for name in PEERS]
    kept.append(at_least("of what the cores reach on rows in memory", middle[CEILING] / middle[TENFOLD], 0.85))
    whole, tenth = lines["all"], lines["tenth"]
    kept.append(at_most("seconds for ten times the rows", whole["seconds"] / tenth["seconds"], 10))
    peaks = {name: max(size for _, size in one["line"]) for name, one in lines.items()}
    kept.append(at_most("memory for ten times the rows", peaks["all"] / peaks["tenth"], 1.1))
    say(f"peaks of private memory: {peaks}")
    steady = 0.9 * rows / (whole["seconds"] - tenth["seconds"])  # without the start, which both have
    say(f"rows a second after the start, of what the cores reach: {steady * middle[CEILING] / rows:.2f}")
    return kept


if __name__ == "__main__":
    main()
