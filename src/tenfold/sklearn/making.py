"""In a worker, or in the caller's own process: calls the user's `build`, and looks at what came out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenfold.sklearn.forms import Form, OtherForm, Problem, checked

FormOf = Callable[[Any, Problem], Form]
"""Tells the form of what `build` returned."""


class Maker:
    """The user's `build`, for data of one form."""

    def __init__(
        self, build: Callable[..., Any], framework: str, form_of: FormOf, problem: Problem, form: Form
    ) -> None:
        self._build = build
        self._framework = framework
        self._form_of = form_of
        self._problem = problem
        self._form = form
        self.__wrapped__ = build  # whose signature is asked for
        self.__name__ = getattr(build, "__name__", type(build).__name__)

    def __call__(self, **params: Any) -> Any:
        built = self._build(**params)
        found = checked(self._form_of(built, self._problem), self._problem)
        if found != self._form:
            raise OtherForm(found)
        return built

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"build": self._build, "framework": _Named(self._framework), "form": self._form}


class _Named:
    """Stands for a framework that is not imported here, where libraries are looked for that a function uses."""

    def __init__(self, framework: str) -> None:
        self.__module__ = framework
