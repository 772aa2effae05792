"""What the commands say: tables and JSON on stdout, notes on stderr. Every command writes through this file."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenfold.work.outcome import Failure, Outcome, shorten
from tenfold.work.plain import plain as plain
from tenfold.work.times import moment as moment
from tenfold.work.times import took as took

UNKNOWN_WIDTH = 400  # columns where there is no terminal to ask: in a pipe, a row is a line

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout, and nothing else there."
)


def screen(*, stderr: bool = False) -> Console:
    """A console that prints what it is given: brackets and colons in a user's values mean nothing to it."""
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNKNOWN_WIDTH
    return console


def note(text: str) -> None:
    """A line for a person, on stderr."""
    click.echo(text, err=True)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns in `right` hold numbers."""
    found = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        found.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return found


def show(*tables: Table) -> None:
    """Print tables on stdout, with a line of room around each."""
    console = screen()
    console.print()
    for found in tables:
        console.print(found)
        console.print()


def ago(moment: float | None) -> str:
    """How long since a time of the clock."""
    if moment is None:
        return "never"
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} seconds ago"


# -- JSON -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stdout_for_json(wanted: bool) -> Iterator[None]:
    """While the block runs, whatever is printed, also from C code, goes to stderr: stdout is kept for `emit`."""
    if not wanted:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # one of them is closed: then there is nothing to keep clean
            kept = os.dup(1)
            stack.callback(os.close, kept)
            sys.stdout.flush()
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield


def emit(result: Mapping[str, Any]) -> None:
    """Print the result as one JSON object. A value that is an iterator is written as a list, item by item."""
    write = sys.stdout.write
    write("{")
    for place, (key, value) in enumerate(result.items()):
        write(f"{',' if place else ''}\n  {json.dumps(key)}: ")
        if isinstance(value, Iterator):
            write("[")
            for number, item in enumerate(value):
                write(f"{',' if number else ''}\n    {json.dumps(plain(item))}")
            write("]")
        else:
            write(json.dumps(plain(value)))
    write("\n}\n")
    sys.stdout.flush()


# -- tasks ------------------------------------------------------------------------------------------------------


def add_outcome(rows: Table, outcome: Outcome, *more: str) -> None:
    """A row of a table with the columns task, item, value and time."""
    what = shorten(outcome.value, 80) if outcome.failure is None else f"failed: {_line(outcome.failure.summary, 80)}"
    item = shorten(outcome.item, 40) if outcome.item is not None else ""
    style = None if outcome.failure is None else "red"
    # As long as a user makes them: one line each, cut where the screen ends.
    cells = [Text(text, no_wrap=True, overflow="ellipsis") for text in (item, what)]
    rows.add_row(str(outcome.index), *cells, took(outcome.seconds), *more, style=style)


def failure(found: Failure | None) -> dict[str, Any]:
    """A failure for JSON."""
    if found is None:
        return {}
    return {"kind": found.kind, "summary": found.summary, "traceback": found.traceback, "output": found.output}


def _line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
