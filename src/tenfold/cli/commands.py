"""The list of commands, and how every one of them ends.

A command is loaded when it is called: `tenfold --help` reads the list below and imports none of them. An error that
is meant for people is one message on stderr; the exit status says whose turn it is.

    0    done
    1    tasks failed, or no worker could be started
    2    the call cannot work: a bad argument, a missing package, a run that cannot be used
    130  interrupted with Ctrl-C
"""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import tenfold
from tenfold.errors import BadCall, RunDiffers, TaskError, TasksFailed, TenfoldError, WorkersUnavailable

COMMANDS = {
    "doctor": "What is here: cores, memory, GPUs, frameworks, and how fast workers start.",
    "demo": "The whole workflow on the digits: prepare, tune, train, evaluate, measure, report.",
    "map": "Run a function of a Python file over items, in parallel.",
    "tune": "Search for good parameters of a Fit or a function of a Python file.",
    "train": "Train one model of a Fit of a Python file, on several workers.",
    "launch": "Run a training loop of a Python file in several processes that form a group.",
    "prepare": "Run a function over a data set, in parallel, and keep the rows for training.",
    "predict": "Run a model over data larger than memory, in parallel.",
    "evaluate": "Score a model on data larger than memory, in parallel.",
    "measure": "Find out how a task of a Python file scales with workers and data.",
    "runs": "List the runs below a folder.",
    "show": "Show one run: its tasks, values, reports and failures.",
    "report": "Write a page about one run: what came of it, when and where tasks ran, and why some failed.",
    "warm": "Keep frameworks imported, so that the next scripts start at once.",
}
"""Name -> the first line of its help; a test compares them with the commands' own."""

_OURS = str(Path(tenfold.__file__).parent)
INTERRUPTED = 130  # what shells use for a process that SIGINT ended


class Commands(click.Group):
    """A group whose members are files of this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"tenfold.cli.{cmd_name}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command: {args[0]!r}; " + (f"did you mean {near[0]}?" if near else _listed()))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Like click's own, with our words and exit statuses for errors."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = functools.partial(_show_warning, warnings.showwarning)
                status = super().main(args, prog_name, complete_var, False, **extra)
        except (click.ClickException, TenfoldError) as error:
            click.echo(f"error: {text_of(error)}", err=True)
            status = status_of(error)
        except click.Abort as abort:
            click.echo("\n".join(["interrupted", *getattr(abort.__cause__, "__notes__", [])]), err=True)
            status = INTERRUPTED
        sys.exit(status if isinstance(status, int) else 0)


def _listed() -> str:
    return f"there are {', '.join(COMMANDS)}"


def _show_warning(
    others: Callable[..., None], message: Warning | str, category: type[Warning], filename: str, *rest: Any
) -> None:
    """Our own warnings are for people, without the line of our code that warns; others stay as they are."""
    if filename.startswith(_OURS):
        click.echo(f"warning: {message}", err=True)
    else:
        others(message, category, filename, *rest)


def status_of(error: Exception) -> int:
    """The exit status that an error ends with."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    if _seen_in_a_worker(error) is not None:
        return 2
    return 1 if isinstance(error, TaskError | TasksFailed | WorkersUnavailable) else 2


def _seen_in_a_worker(error: Exception) -> BadCall | None:
    """An argument that cannot work, where that shows in the data only: a column that is not there."""
    cause = error.failures[0].__cause__ if isinstance(error, TasksFailed) and error.failures else None
    return cause if isinstance(cause, BadCall) else None


def text_of(error: Exception) -> str:
    """An error in the words of the command line."""
    if isinstance(error, click.UsageError):
        where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return error.format_message().rstrip(".") + where
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, TasksFailed) and error.results is not None:
        bad_call = _seen_in_a_worker(error)
        if bad_call is not None:
            return str(bad_call)
        return f"{len(error.failures)} of {len(error.results)} tasks failed\n\n{error.failures[0]}"
    # The library speaks of arguments; whoever typed a command has options.
    return f"{error} (here: --run, --fresh)" if isinstance(error, RunDiffers) else str(error)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has --json: its result alone on stdout, for other programs.",
)
@click.version_option(tenfold.__version__, prog_name="tenfold", message="%(prog)s %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Trains many models at once, on every core, GPU and machine you have."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
