"""`tenfold demo`: many small models at once, start to end, in under a minute.

The models are trained in workers (digits.py); this process imports no framework. A finished run is shown at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold import frameworks
from tenfold.cli import digits, say
from tenfold.journal import records
from tenfold.journal.folder import is_run
from tenfold.machine import installed
from tenfold.nursery import warming

if TYPE_CHECKING:
    from tenfold.dispatch.results import Results

RATES = (0.001, 0.003, 0.01, 0.03)
USES = {"tensorflow": "tensorflow", "keras": "keras", "sklearn": "scikit-learn"}
"""Members of `tenfold.frameworks` -> what people call them."""


@click.command()
@click.option("--models", type=click.IntRange(min=1), default=24, show_default=True, help="How many to train.")
@click.option("--engine", help="Where tasks run: local, serial, ...; tenfold doctor lists them.")
@click.option("--run", default="runs/demo", show_default=True, metavar="FOLDER", help="Keeps what is finished.")
@click.option("--fresh", is_flag=True, help="Train them again, though they are finished.")
@say.json_option
def command(models: int, engine: str | None, run: str, fresh: bool, as_json: bool) -> None:
    """Train small Keras models on every core, and show which was best.

    Four learning rates, each with several seeds, on the digits that come with scikit-learn.
    """
    _check_installed()
    before = 0 if fresh or not is_run(Path(run)) else records.read(Path(run)).done
    if before < models:
        _warm()
    with say.stdout_for_json(as_json):
        items = [{"lr": RATES[n % len(RATES)], "seed": n // len(RATES)} for n in range(models)]
        results = tenfold.map(digits.train, items, engine=engine, run=run, fresh=fresh)
    if as_json:
        say.emit(_json(results, run, before))
    else:
        _show(results, run, before)


def _check_installed() -> None:
    members = frameworks.every()
    lacking = [name for member, name in USES.items() if installed.version(*members[member].distributions) is None]
    if lacking:
        raise installed.missing(f"what the demo trains with ({', '.join(lacking)})", "demo")


def _warm() -> None:
    """Have TensorFlow imported while this process gets ready."""
    if not warming.is_waiting():
        # This process is ours, and the nursery takes over its environment. A nursery that waits was started without
        # these, and would not be recognised with them.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    tenfold.warm("tensorflow")


def _rows(results: Results) -> list[dict[str, Any]]:
    """The models, best first."""
    rows = [outcome.item | outcome.value | {"seconds": outcome.seconds} for outcome in results.outcomes]
    return sorted(rows, key=lambda row: (-row["accuracy"], row["loss"]))


def _json(results: Results, run: str, before: int) -> dict[str, Any]:
    facts = {"run": run, "done_before": before, "seconds": results.seconds, "workers": results.workers}
    return facts | {"models": _rows(results)}


def _show(results: Results, run: str, before: int) -> None:
    screen = say.screen()
    table = say.table("", "learning rate", "seed", "accuracy", "loss", "time", right=("", "seed", "time"))
    rows = _rows(results)
    for place, row in enumerate(rows, 1):
        cells = [f"{row['lr']:g}", str(row["seed"]), f"{row['accuracy']:.1%}", f"{row['loss']:.3f}"]
        table.add_row(str(place), *cells, say.took(row["seconds"]), style="green" if place == 1 else None)
    say.show(table)
    together = say.took(sum(row["seconds"] for row in rows))
    if before == len(results):
        screen.print(f"all {before} models were trained before: shown from {run}, none was trained again")
    else:
        told = f" ({before} of them before)" if before else ""
        at_once = f"{say.took(results.seconds)} with {results.workers} at a time"
        screen.print(f"{len(rows)} models{told} in {at_once}; {together} of training in all", style="bold")
    screen.print(f"kept in {run}: tenfold show {run}; --fresh trains again")
