"""`tenfold measure FILE.py:NAME`: how does it scale?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold.cli import load, say
from tenfold.cli.options import settings_without
from tenfold.errors import BadCall

if TYPE_CHECKING:
    from tenfold.report.scaling_study import ScalingStudy
    from tenfold.scaling.cells import Cell

VARIED = ("cpus", "gpus", "memory", "workers", "isolate", "retries", "timeout", "engine")


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.option("--workers", required=True, metavar="N,N,...", help="Numbers of workers, such as 1,2,4.")
@click.option("--sizes", metavar="N,N,...", help="Samples or items, from the beginning of the data.")
@click.option("--hows", metavar="HOW,...", help="Ways to compare, such as synchronous,asynchronous or fused,alone.")
@click.option("--engines", metavar="NAME,...", help="Engines to compare, such as local,ray.")
@click.option("--repeats", type=int, default=3, show_default=True, help="Of each cell.")
@click.option("--budget", type=float, metavar="SECONDS", help="After which no other call begins.")
@click.option("--cpus", type=float, help="Cores for each worker; those of the machine, divided, where not given.")
@click.option("--report", "page", metavar="FILE", help="Write a page: .html, .md, .json or .png.")
@settings_without(*VARIED)
@say.json_option
def command(
    target: str,
    workers: str,
    sizes: str | None,
    hows: str | None,
    engines: str | None,
    page: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find out how a task of a Python file scales with workers and data.

    NAME is a Fit, a functools.partial of map, train, prepare, predict or evaluate, or a function of (workers, size).

    \b
    tenfold measure train.py:fit --workers 1,2,4 --sizes 1000,10000 --report scaling.html
    tenfold measure train.py:fit --workers 1,2 --engines local,ray --budget 120
    """
    with say.stdout_for_json(as_json):
        study = tenfold.measure(
            load.member(target),
            workers=_numbers("--workers", workers),
            sizes=None if sizes is None else _numbers("--sizes", sizes),
            hows=_words(hows),
            engines=_words(engines),
            **options,
        )
        written = None if page is None else str(study.save(page))
    if as_json:
        say.emit({"target": target, "cells": study.rows(), "advice": study.advice, "report": written})
    else:
        _show(study, written)


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise BadCall(f"{name} {text}: expected whole numbers with commas between them, such as 1,2,4") from None


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _show(study: ScalingStudy, page: str | None) -> None:
    columns = ("setting", "time", "spread", "items/s", "most of it", "memory")
    table = say.table(*columns, right=("time", "spread", "items/s", "memory"))
    for cell in study.cells:
        table.add_row(str(cell.setting), *_columns(cell))
    say.show(table)
    screen = say.screen()
    for sentence in study.advice:
        screen.print(sentence)
    screen.print(f"\nwritten to {page}" if page else "\n--report scaling.html writes a page about it")


def _columns(cell: Cell) -> list[str]:
    if not cell.repeats:
        return [str(cell.failure), "", "", "", ""]
    most = max(cell.parts, key=lambda name: cell.parts[name])
    share = f"{most} {cell.parts[most] / cell.seconds:.0%}"
    memory = f"{cell.memory >> 20:,} MiB" if cell.memory else ""
    return [say.took(cell.seconds), f"{cell.spread:.0%}", f"{cell.throughput:,.0f}", share, memory]
