"""The legs of a study as a `Fit` runs them: in groups, on the rows of their folds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.search.folds import Fold
from tenfold.work.here import Here
from tenfold.work.leg import Leg


class Fits:
    """A `Fit` whose items are legs. Has the abilities that `verbs.grouped` asks for."""

    def __init__(self, fit: Fit, folds: Sequence[Fold] | None, *, prunes: bool) -> None:
        self.fit = copy.copy(fit)
        self.fit.steady, self.fit.brief = True, prunes
        self._folds = folds

    def _placed(self, leg: Leg) -> Leg:
        """With the rows of its fold."""
        if self._folds is None or leg.fold is None:
            return leg
        rows, held = self._folds[leg.fold]
        return replace(leg, params={**leg.params, "rows": rows, "validation_rows": held})

    def together(self, tasks: Sequence[tuple[Here, Leg]]) -> list[Any]:
        return self.fit.together([(task, self._placed(leg)) for task, leg in tasks])

    def __call__(self, item: Leg) -> FitResult:
        return self.fit.alone({})(self._placed(item))

    def alone(self, reasons: Mapping[int, str]) -> Alone:
        return Alone(self)

    def likeness(self, item: Leg) -> Any:
        return self.fit.likeness(item), item.start  # those that go on from the same epoch

    def refusal(self, frameworks: Sequence[str]) -> str | None:
        return self.fit.refusal(frameworks)

    def variables(self, frameworks: Sequence[str]) -> Mapping[str, str]:
        return self.fit.variables(frameworks)

    def check(self, items: Sequence[Leg]) -> None:
        self.fit.check([self._placed(item) for item in items])

    def received(self, value: Any) -> Any:
        return self.fit.received(value)

    def lighter(self, value: Any, last: bool) -> Any:
        """What is kept of a leg that nobody goes on from: of a trial's last one, its model too."""
        if not isinstance(value, FitResult) or (value.saved is None and (last or not len(value.weights))):
            return value
        return replace(value, saved=None, weights=value.weights if last else [])

    def finished(self, folder: Path) -> None:
        self.fit.finished(folder)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {**self.fit.__tenfold_parts__(), "folds": self._folds}

    def __tenfold_modules__(self, named: set[str]) -> list[str]:
        return self.fit.__tenfold_modules__(named)

    @property
    def __name__(self) -> str:
        return self.fit.__name__


class Alone:
    """The same, one model at a time: in the caller's backend, and so in another crew."""

    def __init__(self, fits: Fits) -> None:
        self._fits = fits

    def __call__(self, leg: Leg) -> FitResult:
        return self._fits(leg)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return self._fits.__tenfold_parts__()
