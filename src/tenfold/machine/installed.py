"""Which optional packages are installed, found without importing them (an import costs seconds); and their imports."""

from __future__ import annotations

import importlib
from typing import Any

from tenfold.errors import MissingPackage


def version(*distributions: str) -> str | None:
    """The version of the first of `distributions` that is installed, or None."""
    from importlib import metadata  # 16 ms

    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def command(extra: str) -> str:
    """The command that installs an extra of tenfold."""
    return f'pip install "tenfold[{extra}]"'


def missing(what: str, extra: str) -> MissingPackage:
    """The error to raise when `what` was asked for and its package is not installed."""
    return MissingPackage(f"{what} is not installed; install it with: {command(extra)}")


def imported(module: str, what: str, extra: str) -> Any:
    """An optional module, imported now; the error with the command where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(what, extra) from error
