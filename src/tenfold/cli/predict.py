"""`tenfold predict MODEL SOURCE --to FOLDER`: what a model gives for every sample."""

from __future__ import annotations

from typing import Any

import click

import tenfold
from tenfold.cli import objects, say, sets
from tenfold.cli.options import settings_without


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("source", nargs=-1, metavar="SOURCE")
@sets.to_option
@click.option("--batch-size", type=int, metavar="N", help="Rows at a time; found by measuring where not given.")
@click.option("--output", metavar="NAME", help="One of several outputs; of an estimator, a method: predict_proba.")
@click.option("--input", "inputs", multiple=True, metavar="NAME", help="A column that goes into the model; repeat it.")
@sets.column_option
@sets.format_option
@settings_without("isolate", "run", "fresh")
@sets.fresh_option
@say.json_option
def command(
    model: str,
    source: tuple[str, ...],
    to: str,
    inputs: tuple[str, ...],
    columns: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Run a model over data larger than memory, in parallel.

    MODEL is a .keras file, or FILE.py:NAME of any model. SOURCE is a path, a pattern in quotes, or FILE.py:NAME of an
    object. The same call again returns at once, and goes on where it was stopped.

    \b
    tenfold predict model.keras x.npy --to predictions
    tenfold predict train.py:model people.parquet --input age --input income --to predictions
    """
    with say.stdout_for_json(as_json):
        columns_read = list(columns) or None
        what, rows = objects.thing(model), objects.only(source)
        before = sets.written(to)
        predicted = tenfold.predict(
            what, rows, to, inputs=objects.one_or_several(inputs), columns=columns_read, **options
        )
    sets.tell(predicted, before, {"model": model, "source": source[0]}, as_json=as_json)
