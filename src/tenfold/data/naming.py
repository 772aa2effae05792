"""Which of the columns, arrays or datasets of a file are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenfold.errors import BadCall


def chosen(there: Iterable[str], columns: Sequence[str] | None, told: str, kind: str) -> list[str]:
    """The names in `columns`, or all; an error that says what there is for those that are missing."""
    names = list(there)
    if not names:
        raise BadCall(f"{told}: no {kind} in it")
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise BadCall(f"{told}: several {kind} are called {', '.join(map(repr, twice))}; give each a name of its own")
    if columns is None:
        return names
    unknown = [name for name in columns if name not in names]
    if unknown or not columns:
        wrong = f"no {', '.join(map(repr, unknown))} in {told}" if unknown else "nothing is chosen"
        raise BadCall(f"columns={list(columns)!r}: {wrong}; expected some of {', '.join(map(repr, names))}")
    return list(columns)
