"""`tenfold map FILE.py:NAME`: a function of a file over numbers or JSON lines, in parallel."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold.cli import given, load, say
from tenfold.cli.options import settings as call_settings
from tenfold.errors import BadCall, TasksFailed
from tenfold.journal import records
from tenfold.journal.folder import is_run

if TYPE_CHECKING:
    from tenfold.dispatch.results import Results

SHOWN = 8  # values
TRACEBACKS = 3  # the rest is in the run


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.option("--n", "count", type=click.IntRange(min=0), metavar="N", help="Call it with the numbers 0 to N-1.")
@click.option(
    "--items", metavar="FILE.jsonl", help="Call it with the JSON values of a file, one per line (- is stdin)."
)
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="A keyword argument for every call; repeat it."
)
@call_settings
@click.option(
    "--on-error",
    type=click.Choice(["raise", "stop", "collect"]),
    default="raise",
    show_default=True,
    help="Finish the others and exit with 1; stop at the first failure; or take failures as results and exit with 0.",
)
@say.json_option
def command(
    target: str, count: int | None, items: str | None, sets: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Run a function of a Python file over items, in parallel.

    \b
    tenfold map train.py:train --n 10
    tenfold map train.py:train --items grid.jsonl --set epochs=5 --run runs/grid
    """
    with say.stdout_for_json(as_json):
        what = _items(count, items)
        settings = given.settings(sets)
        task = given.with_settings(load.function(target), settings)
        before = _done_before(options)
        try:
            results, is_bad = tenfold.map(task, what, **options), False
        except TasksFailed as error:
            if error.results is None:
                raise
            results, is_bad = error.results, True
    if before:
        say.note(f"{before} of {len(results)} tasks were done before, and were not run again")
    if as_json:
        say.emit(_json(target, results, options))
    else:
        _show(results, options)
    _show_failures(results, options["run"])
    if is_bad:
        raise click.exceptions.Exit(1)


def _items(count: int | None, items: str | None) -> Iterable[Any]:
    if (count is None) == (items is None):
        told = "neither was" if count is None else "both were"
        raise BadCall(f"expected --n N (the numbers 0 to N-1) or --items FILE.jsonl, and {told} given")
    return range(count) if count is not None else given.items(str(items))


def _done_before(options: dict[str, Any]) -> int:
    """Tasks that an earlier call has done, so that this one leaves them out."""
    folder = Path(options["run"]) if options["run"] is not None else None
    return records.read(folder).done if folder is not None and not options["fresh"] and is_run(folder) else 0


def _show(results: Results, options: dict[str, Any]) -> None:
    screen = say.screen()
    table = say.table("task", "item", "value", "time", right=("task", "time"))
    for outcome in islice(results.outcomes, SHOWN):
        say.add_outcome(table, outcome)
    if len(results):
        say.show(table)
    if len(results) > SHOWN:
        screen.print(f"... {len(results) - SHOWN} more\n")
    screen.print(results.summary(), style="bold")
    folder = options["run"]
    screen.print(f"kept in {folder}: tenfold show {folder}" if folder else "not kept: --run FOLDER keeps a run")


def _show_failures(results: Results, folder: str | None) -> None:
    failures = results.failures
    for error in failures[:TRACEBACKS]:
        say.note(f"\n{error}")
    if len(failures) > TRACEBACKS:
        where = f": tenfold show {folder}" if folder else "; --run FOLDER keeps them all"
        say.note(f"\n... and {len(failures) - TRACEBACKS} more failures{where}")


def _json(target: str, results: Results, options: dict[str, Any]) -> dict[str, Any]:
    failures = results.failures
    return {
        "function": target,
        "run": options["run"],
        "tasks": len(results),
        "done": sum(outcome.ok for outcome in results.outcomes),
        "failed": len(failures),
        "seconds": results.seconds,
        "workers": results.workers,
        "values": (outcome.value for outcome in results.outcomes),
        "failures": (
            {"task": error.index, "attempts": error.attempts} | say.failure(error.failure) for error in failures
        ),
    }
