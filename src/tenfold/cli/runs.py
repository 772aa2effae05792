"""`tenfold runs`: the runs below a folder."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from tenfold.cli import say
from tenfold.journal import records
from tenfold.journal.records import Record

STYLES = {"running": "yellow", "finished": "green", "unfinished": "cyan", "unreadable": "red"}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@say.json_option
def command(folder: Path, as_json: bool) -> None:
    """List the runs below a folder.

    Looks four folders deep, and not into hidden ones. A run that is unfinished goes on when the same call is made
    again; one with failed tasks tries those again.
    """
    found = [records.read(path) for path in records.find(folder)]
    if as_json:
        say.emit({"folder": folder, "runs": iter(found)})
    elif found:
        _show(found)
    else:
        say.note(f"no runs in {str(folder)!r} or {records.DEPTH} folders below it; --run FOLDER or run= makes one")


def _show(found: list[Record]) -> None:
    columns = ("run", "verb", "function", "tasks", "done", "failed", "last used", "state")
    table = say.table(*columns, right=("tasks", "done", "failed"))
    for record in found:
        counts = [str(record.tasks) if record.tasks is not None else "?", str(record.done)]
        failed = Text(str(record.failed), style="red" if record.failed else "")
        state = Text(record.state, style=STYLES[record.state])
        used = say.ago(record.last_used) if record.last_used is not None else ""
        table.add_row(str(record.path), record.verb, record.function, *counts, failed, used, state)
    say.show(table)
    for record in found:
        if record.trouble:
            say.note(record.trouble)
