"""What a task is given, as it is typed: `--items FILE.jsonl` and `--set name=value`."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from tenfold.errors import BadCall
from tenfold.journal import fingerprint
from tenfold.work.outcome import shorten


class JsonLines:
    """The JSON values of a regular file, one per line; blank lines do not count.

    The whole file is checked and counted first, so that line 900,000 cannot end a run that has worked for a day; then
    it is read line by line, as tasks are sent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return _read(self._path)


def items(text: str) -> Iterable[Any]:
    """The items of `--items`: a file, or a pipe ("-" is stdin), which can be read once and is read as it comes."""
    if text == "-":
        return values(sys.stdin, "stdin")
    path = Path(text)
    return _read(path) if path.is_fifo() else JsonLines(path)


def _read(path: Path) -> Iterator[Any]:
    try:
        with open(path, encoding="utf-8-sig") as lines:
            yield from values(lines, str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadCall(f"--items {str(path)!r} cannot be read: {reason}") from error


def values(lines: Iterable[str], name: str) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            raise BadCall(
                f"--items {name!r}, line {number}: {shorten(line.strip(), 60)} is not JSON ({error}); "
                "expected one JSON value per line"
            ) from error


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is JSON, else a Python literal, else text."""
    found: dict[str, Any] = {}
    faults = []
    for text in texts:
        name, equals, typed = text.partition("=")
        if not equals or not name.isidentifier():
            faults.append(f"--set {text!r}: expected name=value, such as lr=0.01")
        found[name] = value(typed)
    if faults:
        raise BadCall("; ".join(faults))
    return found


def value(text: str) -> Any:
    """JSON, else a Python literal, else text."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


def with_settings(task: Callable[..., Any], given: dict[str, Any]) -> Callable[..., Any]:
    """`task` with its settings, once it is known that it takes them and one item."""
    if hasattr(task, "with_params"):  # a Fit: settings are parameters of every model
        return cast("Callable[..., Any]", task.with_params(given)) if given else task
    name = fingerprint.name_of(task)
    try:
        signature = inspect.signature(task)
    except (TypeError, ValueError):  # some built-in functions have none
        pass
    else:
        try:
            signature.bind(None, **given)
        except TypeError as error:
            raise BadCall(f"{name}{signature} cannot be called with one item{_listed(given)}: {error}") from error
    return functools.partial(task, **given) if given else task


def _listed(given: dict[str, Any]) -> str:
    return f" and {', '.join(f'{name}={shorten(value, 40)}' for name, value in given.items())}" if given else ""
