"""Parameters of an estimator: those of its constructor, and those of the `build` that it was given."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import BaseEstimator

from tenfold.errors import BadCall
from tenfold.fuse.building import RESERVED, equal

FILLED = ("n_features", "input_shape", "n_classes", "n_outputs", "epochs", "batch_size")
"""Parameters of `build` that an estimator fills in where they are not given."""


class Parameters(BaseEstimator):  # type: ignore[misc]
    """What scikit-learn asks about parameters.

    `build`'s own are kept apart, in `_given`: a constructor may set no attribute that it does not name. They can be
    read as attributes all the same.
    """

    build: Any
    _given: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter with its value; of `build`'s those that were given, and those that have a default."""
        return {**self._defaults(), **self._given, **super().get_params(deep)}

    def set_params(self, **params: Any) -> Parameters:
        """Set parameters of the constructor and of `build`."""
        own = self._get_param_names()
        if "build" in params:
            # A clone was given all that `get_params` tells: what the old `build` does anyway is no word to the new one.
            usual = self._defaults()
            self._given = {n: v for n, v in self._given.items() if n not in usual or not equal(v, usual[n])}
        super().set_params(**{name: value for name, value in params.items() if name.partition("__")[0] in own})
        theirs = {name: value for name, value in params.items() if name.partition("__")[0] not in own}
        self._check(theirs)
        self._given = {**self._given, **theirs}
        return self

    def _check(self, theirs: dict[str, Any]) -> None:
        """Refuse names that nobody takes."""
        named = self._build_parameters()
        if not named or any(parameter.kind is parameter.VAR_KEYWORD for parameter in named.values()):
            return
        unknown = [name for name in theirs if name not in named and name not in self._given]
        if unknown:
            raise BadCall(
                f"{', '.join(map(repr, unknown))}: {type(self).__name__} has no such parameter, and build takes "
                f"{', '.join(map(repr, named))}. Parameters of {type(self).__name__} are "
                f"{', '.join(map(repr, self._get_param_names()))}"
            )

    def _build_parameters(self) -> dict[str, inspect.Parameter]:
        try:
            return dict(inspect.signature(self.build).parameters)
        except (TypeError, ValueError):  # it is no function: fit says so
            return {}

    def _defaults(self) -> dict[str, Any]:
        return {
            name: parameter.default
            for name, parameter in self._build_parameters().items()
            if parameter.default is not parameter.empty and name not in (*FILLED, *RESERVED)
        }

    def _build_params(self, filled: dict[str, Any]) -> dict[str, Any]:
        """What `build` is called with."""
        named = self._build_parameters()
        return {**{name: value for name, value in filled.items() if name in named}, **self._given}

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__.get("_given", {})
        if name not in given:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return given[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_given", ()):
            self._given = {**self._given, name: value}
        else:
            super().__setattr__(name, value)
