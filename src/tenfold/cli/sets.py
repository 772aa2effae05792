"""What `prepare` and `predict` share: options of a set of rows, and what is told about one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import click

from tenfold.cli import say
from tenfold.data import manifest, stores
from tenfold.data.prepared import Prepared
from tenfold.plan.needs import readable

SHOWN = 3  # samples in quarantine

Option = Callable[[Any], Any]

to_option: Option = click.option("--to", required=True, metavar="FOLDER", help="Where the rows are kept.")
column_option: Option = click.option(
    "--column", "columns", multiple=True, metavar="NAME", help="Read only this column of a table or file; repeat it."
)
format_option: Option = click.option(
    "--format", type=click.Choice(stores.FORMATS), default="npy", show_default=True, help="Of the files."
)
fresh_option: Option = click.option("--fresh", is_flag=True, help="Make everything again.")


def written(to: str) -> int | None:
    """When the set in a folder was made; None where there is none."""
    try:
        return (Path(to) / manifest.NAME).stat().st_mtime_ns
    except OSError:
        return None


def tell(prepared: Prepared, before: int | None, about: dict[str, str], *, as_json: bool) -> None:
    """The result: `about` says what it was made of, `before` when the set was made that was there at first."""
    assert prepared.folder is not None
    cached = before is not None and before == written(str(prepared.folder))
    if as_json:
        say.emit(about | _json(prepared) | {"cached": cached})
    else:
        _show(prepared, cached=cached)


def _show(prepared: Prepared, *, cached: bool) -> None:
    columns = prepared.form.columns
    table = say.table("column", "a row is", "size", right=("size",))
    for column in columns:
        table.add_row(column.name, str(column), readable(len(prepared) * column.row_bytes))
    say.show(table)
    left_out = f", {len(prepared.quarantine)} samples left out" if prepared.quarantine else ""
    screen = say.screen()
    screen.print(f"{len(prepared)} rows in {prepared.folder}{left_out}", style="bold")
    if cached:
        screen.print("made before: nothing had to be done; --fresh makes it again")
    for fault in islice(prepared.quarantine, SHOWN):
        say.note(f"sample {fault['sample']}: {fault['error']}")
    if len(prepared.quarantine) > SHOWN:
        say.note(f"... and {len(prepared.quarantine) - SHOWN} more in {prepared.folder}/{manifest.QUARANTINE}")


def _json(prepared: Prepared) -> dict[str, Any]:
    found = manifest.read(prepared.folder) if prepared.folder is not None else None
    return {
        "to": str(prepared.folder),
        "rows": len(prepared),
        "bytes": len(prepared) * prepared.form.row_bytes,
        "format": found.format if found is not None else None,
        "columns": [
            {"name": column.name, "dtype": str(column.dtype), "shape": list(column.shape)}
            for column in prepared.form.columns
        ],
        "quarantine": iter(prepared.quarantine),
    }
