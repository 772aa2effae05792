"""`tenfold launch FILE.py:NAME --workers N`: a training loop of a file, in several processes that form a group."""

from __future__ import annotations

from typing import Any

import click

import tenfold
from tenfold.cli import given, load, say
from tenfold.cli.options import settings_without
from tenfold.work.outcome import shorten


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.option("--workers", type=int, required=True, metavar="N", help="How many processes, all at once.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="A keyword argument; repeat it.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="torch or jax; found in the function where not given."
)
@settings_without("workers", "isolate", "retries", "run", "fresh")
@say.json_option
def command(target: str, sets: tuple[str, ...], groups: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Run a training loop of a Python file in several processes that form a group.

    \b
    tenfold launch train.py:train --workers 4
    tenfold launch train.py:train --workers 4 --set lr=0.01 --gpus 1
    """
    with say.stdout_for_json(as_json):
        function, params = load.function(target), given.settings(sets)
        values = tenfold.launch(function, params, groups=list(groups) or None, **options)
    if as_json:
        say.emit({"function": target, "workers": len(values), "values": values})
        return
    table = say.table("worker", "value", right=("worker",))
    for rank, value in enumerate(values):
        table.add_row(str(rank), shorten(value, 100))
    say.show(table)
