"""Options that every verb which runs tasks has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = {
    "cpus": click.option("--cpus", type=float, default=1, show_default=True, help="Cores that one task needs."),
    "gpus": click.option(
        "--gpus", type=float, default=0, show_default=True, help="GPUs that one task needs; 0.5 shares one."
    ),
    "memory": click.option("--memory", metavar="SIZE", help='Stop a task above this much memory, such as "2GB".'),
    "workers": click.option(
        "--workers", type=int, help="How many tasks at once; as many as fit where it is not given."
    ),
    "isolate": click.option(
        "--isolate/--no-isolate", default=None, help="Give each task a process of its own, or never."
    ),
    "retries": click.option(
        "--retries", type=int, default=0, show_default=True, help="How often a failed task is tried again."
    ),
    "timeout": click.option("--timeout", type=float, metavar="SECONDS", help="Stop an attempt that takes longer."),
    "seed": click.option(
        "--seed", type=int, default=0, show_default=True, help="Gives every task its own random numbers."
    ),
    "engine": click.option("--engine", help="Where tasks run: local, serial, ...; tenfold doctor lists them."),
    "run": click.option("--run", metavar="FOLDER", help="Keep what is finished; the same call continues where it was."),
    "fresh": click.option("--fresh", is_flag=True, help="Start the run in that folder anew."),
}


def settings(command: Command) -> Command:
    """Adds them to a command."""
    return settings_without()(command)


def settings_without(*left_out: str) -> Callable[[Command], Command]:
    """Adds them but for some, to the command of a verb that has not all of them."""

    def add(command: Command) -> Command:
        for name in reversed(_OPTIONS):
            if name not in left_out:
                command = _OPTIONS[name](command)
        return command

    return add
