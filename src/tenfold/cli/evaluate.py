"""`tenfold evaluate MODEL SOURCE... --metric NAME`: scores of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

import tenfold
from tenfold.cli import given, objects, say
from tenfold.cli.options import settings_without
from tenfold.errors import BadCall
from tenfold.metrics.scores import Scores


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("source", nargs=-1, metavar="SOURCE...")
@click.option("--metric", "metrics", multiple=True, required=True, metavar="NAME", help="What is scored; repeat it.")
@click.option("--target", metavar="NAME", help="The column of a table that is the truth.")
@click.option("--input", "inputs", multiple=True, metavar="NAME", help="A column that goes into the model; repeat it.")
@click.option("--weight", metavar="NAME", help="The column that says how much a row counts.")
@click.option("--by", metavar="NAME", help="A column whose every value has scores of its own.")
@click.option("--bootstrap", type=int, default=0, metavar="N", help="Replicates for 95 % intervals, such as 1000.")
@click.option("--approximate", is_flag=True, help="roc_auc and average_precision from histograms, with a bound.")
@click.option("--class", "classes", multiple=True, metavar="LABEL", help="Of a column of predictions, in order.")
@click.option("--batch-size", type=int, metavar="N", help="Rows at a time; found by measuring where not given.")
@click.option("--output", metavar="NAME", help="One of several outputs; of an estimator, a method: predict_proba.")
@settings_without("isolate")
@say.json_option
def command(
    model: str,
    source: tuple[str, ...],
    metrics: tuple[str, ...],
    inputs: tuple[str, ...],
    classes: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Score a model on data larger than memory, in parallel.

    MODEL and SOURCE are as for predict; a source has the truth: pairs (x, y), or a table and --target. Several sources
    have scores each.

    \b
    tenfold evaluate model.keras prepared/photos --metric accuracy --metric f1_macro
    tenfold evaluate train.py:model a.parquet b.parquet --target label --metric roc_auc --bootstrap 1000
    """
    with say.stdout_for_json(as_json):
        found = tenfold.evaluate(
            objects.thing(model),
            _sources(source),
            [objects.thing(metric) for metric in metrics],
            inputs=objects.one_or_several(inputs),
            classes=[given.value(label) for label in classes] or None,
            **options,
        )
    if as_json:
        say.emit({"model": model, "run": options["run"], "scores": _json(found)})
    else:
        _show(found, options["run"])


def _sources(texts: tuple[str, ...]) -> Any:
    if not texts:
        raise BadCall("expected a SOURCE with the truth in it, and none was given")
    return objects.only(texts) if len(texts) == 1 else {text: objects.thing(text) for text in texts}


def _show(found: Any, folder: str | None) -> None:
    screen = say.screen()
    for path, scores in _each(found, ()):
        screen.print(f"\n{': '.join(path)}" if path else "", style="bold")
        screen.print(str(scores))
    screen.print(f"\nkept in {folder}: the same call continues it" if folder else "\nnot kept: --run FOLDER keeps it")


def _each(found: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scores]]:
    """The scores of each data set and model, with their names. `Scores` are a mapping too."""
    if isinstance(found, Scores):
        yield path, found
    else:
        for name, inner in found.items():
            yield from _each(inner, (*path, name))


def _json(found: Any) -> Any:
    if isinstance(found, Mapping) and not isinstance(found, Scores):
        return {name: _json(inner) for name, inner in found.items()}
    return found.as_dict()
