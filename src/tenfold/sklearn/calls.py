"""In a worker: function calls whose arguments came apart, put together again and made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shared:
    """Stands for an argument that several calls have."""

    place: int
    """Among those that travel once."""


@dataclass(frozen=True, slots=True)
class Parts:
    """One call, without what it shares with others."""

    function: Any
    """What is called."""
    args: Sequence[Any]
    """With this."""
    kwargs: Mapping[str, Any]
    """And this."""

    def __repr__(self) -> str:
        """For people who are told of its failure: the candidate, and the fold."""
        fold, folds = self.kwargs.get("split_progress") or (0, 1)
        return f"{self.kwargs.get('parameters')} on fold {fold + 1} of {folds}"


class Calls:
    """Makes calls; what several of them share travels with this, once."""

    def __init__(self, shared: Sequence[Any], libraries: Sequence[Any]) -> None:
        self._shared = shared
        self._libraries = libraries
        self.__name__ = "fit and score"

    def __call__(self, parts: Parts) -> Any:
        args = [self._open(value) for value in parts.args]
        return self._open(parts.function)(*args, **{name: self._open(value) for name, value in parts.kwargs.items()})

    def _open(self, value: Any) -> Any:
        return self._shared[value.place] if isinstance(value, Shared) else value

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {f"library {place}": value for place, value in enumerate(self._libraries)}
