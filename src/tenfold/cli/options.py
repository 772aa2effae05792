"""Options that every verb which runs tasks has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--cpus", type=float, default=1, show_default=True, help="Cores that one task needs."),
    click.option("--gpus", type=float, default=0, show_default=True, help="GPUs that one task needs; 0.5 shares one."),
    click.option("--memory", metavar="SIZE", help='Stop a task above this much memory, such as "2GB".'),
    click.option("--workers", type=int, help="How many tasks at once; as many as fit where it is not given."),
    click.option("--isolate/--no-isolate", default=None, help="Give each task a process of its own, or never."),
    click.option("--retries", type=int, default=0, show_default=True, help="How often a failed task is tried again."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Stop an attempt that takes longer."),
    click.option("--seed", type=int, default=0, show_default=True, help="Gives every task its own random numbers."),
    click.option("--engine", help="Where tasks run: local, serial, ...; tenfold doctor lists them."),
    click.option("--run", metavar="FOLDER", help="Keep what is finished; the same call continues where it was."),
    click.option("--fresh", is_flag=True, help="Start the run in that folder anew."),
]


def settings(command: Command) -> Command:
    """Adds them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
