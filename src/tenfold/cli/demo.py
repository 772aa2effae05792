"""`tenfold demo`: the whole workflow, start to end, in under two minutes.

Models are trained in workers. What is finished is kept, and shown at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold import frameworks
from tenfold.cli import say
from tenfold.cli.workflow import Found, Step, Workflow
from tenfold.machine import installed
from tenfold.nursery import warming

if TYPE_CHECKING:
    from tenfold.report.parts import Report

USES = {"jax": "jax", "keras": "keras", "sklearn": "scikit-learn"}
"""Members of `tenfold.frameworks` -> what people call them."""
BESIDES = ("optuna", "scipy")
PAGE = "report.html"


@click.command()
@click.option("--trials", type=click.IntRange(min=3), default=64, show_default=True, help="Of the search.")
@click.option("--engine", help="Where tasks run: local, dask, ray, ...; tenfold doctor lists them.")
@click.option("--run", default="runs/demo", show_default=True, metavar="FOLDER", help="Keeps what is finished.")
@click.option("--fresh", is_flag=True, help="Do everything again, though it is finished.")
@say.json_option
def command(trials: int, engine: str | None, run: str, fresh: bool, as_json: bool) -> None:
    """The whole workflow on the digits: prepare, tune, train, evaluate, measure, report.

    The images that come with scikit-learn are enlarged, a search finds parameters of a small Keras network, the best is
    trained and scored, and a page says how it all went and how training scales.
    """
    _check_installed()
    folder = Path(run)
    _warm()
    with say.stdout_for_json(as_json):
        found = Workflow(folder, trials, engine, fresh, say.note).run()
        page = report(found).save(folder / PAGE)
    if as_json:
        say.emit(_json(found, str(page)))
    else:
        _show(found, str(page))


def _check_installed() -> None:
    members = frameworks.every()
    lacking = [name for member, name in USES.items() if installed.version(*members[member].distributions) is None]
    lacking += [name for name in BESIDES if installed.version(name) is None]
    if lacking:
        raise installed.missing(f"what the demo needs ({', '.join(lacking)})", "demo")


def _warm() -> None:
    """Have Keras imported while this process gets ready; all models are trained on JAX, one at a time or together."""
    if not warming.is_waiting():
        # This process is ours, and the nursery takes over its environment. A nursery that waits was started without
        # it, and would not be recognised with it.
        os.environ.setdefault("KERAS_BACKEND", "jax")
    tenfold.warm("fuse")


def _rows(steps: list[Step]) -> list[tuple[str, str, str, str]]:
    return [
        (
            step.name,
            step.what,
            f"{say.took(step.seconds)}{', kept' if step.kept else ''}",
            "" if step.alone is None else f"about {say.took(step.alone)}",
        )
        for step in steps
    ]


COLUMNS = ("step", "what came of it", "took", "one by one")
ESTIMATED = (
    "One by one is an estimate: a few images in a loop and one model with Keras's own fit were timed, and multiplied. "
    "There, no trial is given up early."
)


def report(found: Found) -> Report:
    """One page for all: what each step took, how good the model is, the search, and how training scales."""
    from tenfold.report.parts import Report, Section, Table, Text

    scaling = found.scaling.report()
    labels = [str(label) for label in found.scores.labels]
    matrix = [[label, *map(str, row)] for label, row in zip(labels, found.scores["confusion"].tolist(), strict=True)]
    steps = Section("What each step took", [Table(COLUMNS, _rows(found.steps), COLUMNS[2:]), Text(ESTIMATED)])
    told = Text("A row for each digit, a column for each that the model took it for.")
    errors = Section("Confusion matrix", [told, Table(("", *labels), matrix, tuple(labels))])
    study = _of_run(found.folder / "tune")
    summary = f"{found.scores['accuracy']:.1%} of the images that no model has seen are recognised."
    return Report("tenfold demo", summary, [steps, errors, *study, *scaling.sections], scaling.figures)


def _of_run(folder: Path) -> list[Any]:
    from tenfold.report.of_run import of_run

    return [section for section in of_run(folder).sections if section.heading in ("The search", "Learning curves")]


def _json(found: Found, page: str) -> dict[str, Any]:
    steps = [
        {
            "step": step.name,
            "what": step.what,
            "seconds": step.seconds,
            "kept": step.kept,
            "one_by_one": step.alone,
        }
        for step in found.steps
    ]
    return {"accuracy": found.scores["accuracy"], "params": found.study.best.params, "steps": steps, "report": page}


def _show(found: Found, page: str) -> None:
    screen = say.screen()
    screen.print()
    screen.print(str(found.scores))
    table = say.table(*COLUMNS, right=COLUMNS[2:])
    for row in _rows(found.steps):
        table.add_row(*row)
    say.show(table)
    for sentence in found.scaling.advice[:2]:
        screen.print(sentence)
    screen.print(f"\n{ESTIMATED}")
    screen.print(f"the page about it: {page}")
    screen.print("what is finished is kept: the same command shows it at once, --fresh begins anew")
