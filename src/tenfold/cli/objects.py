"""What a verb works on, as it is typed: `FILE.py:NAME` is an object of a file, anything else a path or a pattern."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from typing import Any

from tenfold.cli import load
from tenfold.errors import BadCall

_OF_FILE = re.compile(r".+\.py:[\w.]*")
_OF_MODULE = re.compile(r"[\w.]+:[\w.]+")


def is_object(text: str) -> bool:
    """Whether an object of a file or a module is meant; a file of that very name comes first."""
    return (_OF_FILE.fullmatch(text) or _OF_MODULE.fullmatch(text)) is not None and not os.path.exists(text)


def thing(text: str) -> Any:
    """A source, a model or a metric. A function without parameters is called, and what it returns is taken."""
    if not is_object(text):
        return text
    found = load.member(text)
    return found() if inspect.isfunction(found) and not inspect.signature(found).parameters else found


def only(texts: Sequence[str]) -> Any:
    """The one source of a verb that takes one."""
    if len(texts) != 1:
        raise BadCall(
            f"expected one SOURCE, and {len(texts) or 'none'} {'were' if len(texts) > 1 else 'was'} given"
            + ("; in quotes, the shell leaves a pattern alone: 'photos/*.jpg'" if len(texts) > 1 else "")
        )
    return thing(texts[0])


def one_or_several(names: Sequence[str]) -> str | list[str] | None:
    """Columns: one by its name is as it is stored, several make a matrix, none leaves the choice to the verb."""
    return None if not names else names[0] if len(names) == 1 else list(names)
