"""`tenfold report RUN`: a page about one run, or the same as text, for programs, or as a picture."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tenfold.cli import say
from tenfold.errors import BadCall

FORMATS = ("html", "md", "json", "png")
STDOUT = "-"


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(FORMATS), help="What to write; by the name of --to, else html.")
@click.option("--to", metavar="PATH", help="The file to write; RUN/report.html where it is not given. - is stdout.")
@say.json_option
def command(run: Path, kind: str | None, to: str | None, as_json: bool) -> None:
    """Write a page about one run: what came of it, when and where tasks ran, and why some failed.

    RUN is the folder of a run, or of a data set that tenfold has prepared. The page is one file that needs no network.
    Values are pickles, and opening one can run code: report on runs of people you trust.

    \b
    tenfold report runs/linear
    tenfold report runs/linear --format md --to -
    tenfold report runs/linear --to linear.png
    """
    if as_json:
        kind, to = "json", to or STDOUT
    kind = kind or _kind_of(to)
    if to == STDOUT and kind == "png":
        raise BadCall("--to -: a picture is not written to stdout; give the name of a file, such as --to report.png")
    from tenfold.report.of_run import of_run  # with what it needs, only when it is wanted

    with say.stdout_for_json(to == STDOUT):  # some frameworks print when they are imported
        found = of_run(run)
        text = {"html": found.html, "md": found.markdown, "json": found.json}[kind]() if to == STDOUT else ""
    if to == STDOUT:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        return
    target = Path(to) if to is not None else run / f"report.{kind}"
    click.echo(str(found.save(target, kind)))


def _kind_of(to: str | None) -> str:
    kind = "" if to is None or to == STDOUT else Path(to).suffix.lower().lstrip(".")
    if kind and kind not in FORMATS:
        raise BadCall(f"--to {to}: expected a name that ends with .html, .md, .json or .png, or --format")
    return kind or "html"
