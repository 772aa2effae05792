"""`tenfold warm`: a nursery that waits for the next scripts, with frameworks imported."""

from __future__ import annotations

import time
from typing import Any

import click

from tenfold.cli import examine, say
from tenfold.errors import BadCall
from tenfold.nursery import warming
from tenfold.verbs.warm import modules


@click.command()
@click.argument("names", nargs=-1, metavar="[FRAMEWORK]...")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    help="It ends when no script has used it for so long.",
)
@click.option("--stop", is_flag=True, help="End every waiting nursery of yours.")
@click.option("--status", is_flag=True, help="Say whether one is waiting, and change nothing.")
@say.json_option
def command(names: tuple[str, ...], minutes: float, stop: bool, status: bool, as_json: bool) -> None:
    """Keep frameworks imported, so that the next scripts start at once.

    With no name: every framework that is installed. The nursery is a process of yours that only you can use; a
    script uses it when its interpreter, packages and environment are the same.
    """
    if (stop and status) or (names and (stop or status)):
        raise BadCall("expected names of frameworks, --stop or --status: one of them")
    if stop:
        _stop(as_json)
    elif status:
        _tell_status(as_json)
    else:
        _start(names, minutes, as_json)


def _start(names: tuple[str, ...], minutes: float, as_json: bool) -> None:
    wanted = modules(names)
    was_waiting = warming.is_waiting()
    with say.screen(stderr=True).status(f"importing {', '.join(names) or 'every framework'}"):
        state = warming.start(wanted, minutes)
    if as_json:
        # A nursery that waited already keeps the limit that it was started with.
        say.emit(_json(state) | {"started": not was_waiting, "minutes": None if was_waiting else minutes})
    else:
        _show(state, wanted)
        _say_until(state["pid"], minutes, was_waiting)
    if names and any(module in state["failed"] for module in wanted):
        raise click.exceptions.Exit(1)


def _say_until(pid: int, minutes: float, was_waiting: bool) -> None:
    if was_waiting:
        click.echo(f"nursery {pid} was waiting already, and keeps the --minutes that it was started with")
    else:
        until = say.moment(time.time() + 60 * minutes)
        click.echo(f"nursery {pid} waits until {until}, and {minutes:g} minutes after each use")
    click.echo("tenfold warm --stop ends it now")


def _stop(as_json: bool) -> None:
    count = warming.stop()
    if as_json:
        say.emit({"stopped": count})
    else:
        click.echo(f"ended {count} waiting {'nursery' if count == 1 else 'nurseries'}" if count else "none was waiting")


def _tell_status(as_json: bool) -> None:
    state = warming.state()
    if as_json:
        say.emit(_json(state))
    elif state is None:
        click.echo("no nursery is waiting for scripts like this one; tenfold warm starts one")
    else:
        _show(state, list(state["imported"]))
        click.echo(f"nursery {state['pid']} is waiting")


def _show(state: dict[str, Any], wanted: list[str]) -> None:
    table = say.table("imported", "time", right=("time",))
    for module in dict.fromkeys(wanted):
        if module in state["imported"]:
            table.add_row(module, say.took(state["imported"][module]))
    if table.row_count:
        say.show(table)
    for module, text in state["failed"].items():
        say.note(f"{module} could not be imported: {examine.last_line(text)}")
    if state["unsafe"]:
        say.note(f"workers cannot be forked from it: {state['unsafe']}")


def _json(state: dict[str, Any] | None) -> dict[str, Any]:
    if state is None:
        return {"waiting": False}
    failed = {module: examine.last_line(text) for module, text in state["failed"].items()}
    return {"waiting": True} | state | {"failed": failed}
