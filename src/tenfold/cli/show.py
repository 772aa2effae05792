"""`tenfold show RUN`: what a run is, what became of its tasks, and why some failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tenfold.cli import say, story
from tenfold.cli.story import RunStory, TaskStory
from tenfold.journal import records
from tenfold.journal.records import Record
from tenfold.plan.needs import readable
from tenfold.work.outcome import Failure, Report, describe, shorten

SHOWN = 10  # tasks, and failures with their tracebacks
VALUE_SHOWN = 10_000  # characters of one task's value


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--task", type=click.IntRange(min=0), metavar="N", help="Everything about task number N.")
@click.option("--all", "every", is_flag=True, help=f"Every task and failure, not only the first {SHOWN}.")
@say.json_option
def command(run: Path, task: int | None, every: bool, as_json: bool) -> None:
    """Show one run: its tasks, values, reports and failures.

    Values are pickles, and opening one can run code: look at runs of people you trust.
    """
    records.check(run)
    with say.stdout_for_json(as_json), records.opened(run) as journal:  # some frameworks print when they are imported
        found: RunStory | TaskStory
        found = (
            story.of_run(journal, run, None if every else SHOWN) if task is None else story.of_task(journal, run, task)
        )
    if as_json:
        say.emit(found.to_json())
    elif isinstance(found, RunStory):
        _show_run(say.screen(), found)
    else:
        _show_task(found)


# -- a run ------------------------------------------------------------------------------------------------------


def _show_run(screen: Console, found: RunStory) -> None:
    record = found.record
    screen.print(f"{record.verb} of {record.function} in {record.path}", style="bold")
    screen.print(_counts(record))
    if record.verb == "tune":  # its tasks are legs of trials
        screen.print(f"the best trials and their parameters: tenfold report {record.path}")
    say.show(_sessions(found.sessions, record), *([_done(found)] if found.done else []))
    if record.done > len(found.done):
        screen.print(f"... {record.done - len(found.done)} more (--all shows them)\n")
    for task in found.failed:
        _show_failure(task)
        click.echo()
    if record.failed > len(found.failed):
        screen.print(f"... {record.failed - len(found.failed)} more failures (--all shows them)\n")
    if record.failed and record.state != "running" and record.verb != "tune":  # in a study, a failure is an answer
        screen.print("the same call with this run tries the failed tasks again")


def _counts(record: Record) -> str:
    words = [f"{record.tasks} tasks" if record.tasks is not None else "number of tasks not known yet"]
    words += [f"{record.done} done"] + ([f"{record.failed} failed"] if record.failed else [])
    left = record.tasks - record.done - record.failed if record.tasks is not None else 0
    words += [f"{left} not run yet"] if left > 0 else []
    return f"{record.state}: {', '.join(words)}"


def _sessions(sessions: list[dict[str, Any]], record: Record) -> Table:
    table = say.table("session", "began", "took", "workers", "engine", "process", right=("session", "workers"))
    for number, session in enumerate(sessions, 1):
        is_last = number == len(sessions)
        unended = "running" if is_last and record.state == "running" else "did not end"
        took = say.took(session["ended"] - session["began"]) if session["ended"] else unended
        about = [str(session.get("workers", "")), str(session.get("engine", "")), str(session["pid"])]
        table.add_row(str(number), say.moment(session["began"]), took, *about)
    return table


def _done(found: RunStory) -> Table:
    has_reports = any(task.reports for task in found.done)
    columns = ("task", "item", "value", "time") + (("last report",) if has_reports else ())
    table = say.table(*columns, right=("task", "time"))
    for task in found.done:
        assert task.outcome is not None
        more = (_report(task.reports[-1]) if task.reports else "",) if has_reports else ()
        say.add_outcome(table, task.outcome, *more)
    return table


def _report(report: Report) -> str:
    return ", ".join([f"step {report.step}", *(f"{name} {value:.4g}" for name, value in report.values.items())])


# -- a task -----------------------------------------------------------------------------------------------------


def _show_task(task: TaskStory) -> None:
    outcome = task.outcome
    if task.status == "failed":
        _show_failure(task)
    else:
        click.echo(f"task {task.index}: {task.status}")
    if outcome is not None and task.status == "done":
        tries = "" if outcome.attempts == 1 else f", attempt {outcome.attempts}"
        memory = f", at most {readable(outcome.peak)} in its process" if outcome.peak else ""
        click.echo(f"  item: {shorten(outcome.item, VALUE_SHOWN)}")
        click.echo(f"  value: {shorten(outcome.value, VALUE_SHOWN)}")
        click.echo(f"  seat {outcome.seat}, worker {outcome.worker}{tries}, {say.took(outcome.seconds)}{memory}")
        _show_earlier(task.earlier)
    if task.reports:
        click.echo("  reports:")
        for report in task.reports:
            click.echo(f"    {_report(report)}")


def _show_failure(task: TaskStory) -> None:
    assert task.outcome is not None
    click.echo(str(describe(task.outcome)))
    _show_earlier(task.earlier)


def _show_earlier(failures: list[Failure]) -> None:
    for number, failure in enumerate(failures, 1):
        click.echo(f"\nEarlier attempt {number} of {len(failures)}: {failure.summary}")
        text = failure.traceback or failure.output
        if text:
            click.echo(text.rstrip())
