"""`tenfold prepare FILE.py:NAME SOURCE --to FOLDER`: a data set through a function of a file."""

from __future__ import annotations

from typing import Any

import click

import tenfold
from tenfold.cli import given, load, objects, say, sets
from tenfold.cli.options import settings_without


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.argument("source", nargs=-1, metavar="SOURCE")
@sets.to_option
@click.option("--batch", type=int, metavar="N", help="Samples that go together; found by itself where not given.")
@click.option("--batched", is_flag=True, help="The function takes a batch of samples as arrays.")
@sets.column_option
@click.option(
    "--on-error",
    type=click.Choice(["quarantine", "raise"]),
    default="quarantine",
    show_default=True,
    help="Leave out a sample that fails, and note it in quarantine.jsonl; or stop.",
)
@sets.format_option
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A keyword argument for every call; repeat it."
)
@settings_without("isolate", "run", "fresh")
@sets.fresh_option
@say.json_option
def command(
    target: str,
    source: tuple[str, ...],
    to: str,
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Run a function over a data set, in parallel, and keep the rows for training.

    SOURCE is a path, a pattern in quotes, or FILE.py:NAME of an object. The same call again returns at once, and
    goes on where it was stopped.

    \b
    tenfold prepare resize.py:resize 'photos/**/*.jpg' --to prepared/photos
    tenfold prepare scale.py:scale x.npy --to prepared/x --batch 256 --batched
    """
    with say.stdout_for_json(as_json):
        function = given.with_settings(load.function(target), given.settings(settings))
        what = objects.only(source)
        before = sets.written(to)
        prepared = tenfold.prepare(function, what, to, columns=list(columns) or None, **options)
    sets.tell(prepared, before, {"function": target, "source": source[0]}, as_json=as_json)
