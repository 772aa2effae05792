"""In a worker: function calls whose arguments came apart, put together again and made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Calls:
    """Makes calls; what several of them share travels with this, once."""

    def __init__(self, shared: Sequence[Any], libraries: Sequence[Any]) -> None:
        self._shared = shared
        self._libraries = libraries
        self.__name__ = "fit and score"

    def __call__(self, item: tuple[Any, Sequence[Any], dict[str, Any]]) -> Any:
        function, args, kwargs = item
        return self._open(function)(
            *(self._open(value) for value in args), **{name: self._open(value) for name, value in kwargs.items()}
        )

    def _open(self, value: Any) -> Any:
        return self._shared[value.place] if isinstance(value, Shared) else value

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {f"library {place}": value for place, value in enumerate(self._libraries)}


class Shared:
    """Stands for an argument that several calls have."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place
